/** Implements `retry` [salt/state.py verify_retry_data]. */

import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { plainNumber } from '#minion-protocol';
import { longestTimerMs } from '#runtime';
import type { PlainData } from '#template';
import { isPillarMap } from '../render/pillar-data.ts';
import { fromWire, textOf } from '../render/pillar-wire.ts';
import type { Outcome } from './state-result.ts';

/** Parsed `retry` option. */
interface Retry {
  readonly until: boolean;
  readonly attempts: number;
  /** Delay between two attempts, in seconds. */
  readonly interval: number;
  /** Maximum random addition to the delay, in seconds. */
  readonly splay: number;
}

const standard: Retry = { until: true, attempts: 2, interval: 30, splay: 0 };

/** Outcome of the last attempt to run a state, and the number of attempts. */
interface Attempted {
  readonly outcome: Outcome;
  readonly attempts: number;
}

/**
 * Runs a state, and repeats it as often as its `retry` option requires.
 * @param said - the `retry` option; `undefined`: the state runs once
 */
export async function attempt(
  run: () => Promise<Outcome>,
  said: PlainData | undefined,
  { test, signal }: { readonly test: boolean; readonly signal: AbortSignal },
): Promise<Attempted> {
  let outcome = await run();
  if (said === undefined) return { outcome, attempts: 1 };
  const retry = readRetry(said);
  if (test)
    return { outcome: withComment(outcome, [commentOf(outcome), plan(retry)], '  '), attempts: 1 };
  const comments: string[] = [];
  while (outcome.result !== retry.until && comments.length + 1 < retry.attempts) {
    comments.push(reportOf(outcome, comments.length + 1));
    await sleep(pauseOf(retry), undefined, { signal });
    outcome = await run();
  }
  // Without a repetition, the comment keeps its type.
  if (comments.length === 0) return { outcome, attempts: 1 };
  return {
    outcome: withComment(outcome, [...comments, commentOf(outcome)], '\n'),
    attempts: comments.length + 1,
  };
}

function readRetry(said: PlainData): Retry {
  if (said === false) return { ...standard, attempts: 0 };
  if (!isPillarMap(said)) return standard;
  const number = (name: 'attempts' | 'interval' | 'splay'): number => {
    const value = plainNumber(said.get(name));
    return typeof value === 'number' ? Math.max(0, value) : standard[name];
  };
  const until = said.get('until');
  return {
    until: typeof until === 'boolean' ? until : standard.until,
    attempts: number('attempts'),
    interval: number('interval'),
    splay: number('splay'),
  };
}

function pauseOf({ interval, splay }: Retry): number {
  const more = splay === 0 ? 0 : randomInt(splay + 1);
  return Math.min((interval + more) * 1000, longestTimerMs);
}

function withComment(outcome: Outcome, parts: readonly string[], between: string): Outcome {
  return { ...outcome, comment: parts.join(between) };
}

function reportOf(outcome: Outcome, attempts: number): string {
  const result = textOf(outcome.result);
  return `Attempt ${attempts}: Returned a result of "${result}", with the following comment: "${commentOf(outcome)}"`;
}

function commentOf({ comment }: Outcome): string {
  return textOf(fromWire(comment));
}

function plan({ until, attempts, interval, splay }: Retry): string {
  return (
    `The state would be retried every ${interval} seconds (with a splay of up to ${splay} ` +
    `seconds) a maximum of ${attempts} times or until a result of ${textOf(until)} is returned`
  );
}
