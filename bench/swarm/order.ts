/** The master's end of the swarm: its process, and what it is told. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Order, Outcome } from './orders.ts';

/** Tells the swarm what to do, and waits until it has. @returns milliseconds that it took */
export async function order(swarm: ChildProcess, what: Order): Promise<number> {
  const answered = once(swarm, 'message');
  swarm.send(what);
  const [outcome]: Outcome[] = await answered;
  if (outcome === undefined || 'error' in outcome) throw new Error(outcome?.error ?? 'no answer');
  return outcome.ms;
}
