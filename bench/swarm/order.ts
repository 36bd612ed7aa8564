/** Sends orders to the process with the simulated minions. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Order, Outcome } from './orders.ts';

/**
 * Sends an order and waits until it was carried out.
 * @returns the duration in milliseconds
 */
export async function order(swarm: ChildProcess, what: Order): Promise<number> {
  const answered = once(swarm, 'message');
  swarm.send(what);
  const [outcome]: Outcome[] = await answered;
  if (outcome === undefined || 'error' in outcome) throw new Error(outcome?.error ?? 'no answer');
  return outcome.ms;
}
