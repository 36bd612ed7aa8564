import { setTimeout as sleep } from 'node:timers/promises';
import { onAbort } from './on-abort.ts';

/**
 * Returns the result of a promise, or `undefined` if the signal is aborted before the promise
 * settles.
 */
export async function inTime<T>(coming: Promise<T>, end: AbortSignal): Promise<T | undefined> {
  let cancel = (): void => {};
  const ended = new Promise<undefined>((resolve) => {
    if (end.aborted) resolve(undefined);
    else cancel = onAbort(end, () => resolve(undefined));
  });
  try {
    return await Promise.race([coming, ended]);
  } finally {
    // The listener is removed, because the signal may exist as long as the process.
    cancel();
  }
}

/**
 * A signal that combines several source signals. `AbortSignal.any` of Node.js 24 is not used,
 * because it keeps a combined signal with a listener in memory as long as its sources exist. The
 * signal for the end of the master is such a source, so each request would cost 1.2 KB until the
 * master ends.
 */
export interface LinkedSignal {
  /** Aborted when the first source is aborted, with the reason of that source. */
  readonly signal: AbortSignal;
  /**
   * Removes the listeners from the source signals. Called automatically when a source signal is
   * aborted.
   */
  unlink(): void;
}

/**
 * Combines signals.
 * @param signals - the source signals. `undefined` is ignored
 */
export function linkSignals(...signals: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  const sources = signals.filter((signal) => signal !== undefined);
  let cancels: readonly (() => void)[] = [];
  const unlink = (): void => {
    for (const cancel of cancels) cancel();
  };
  const abort = (source: AbortSignal): void => {
    unlink();
    controller.abort(source.reason);
  };
  const aborted = sources.find((source) => source.aborted);
  if (aborted === undefined) cancels = sources.map((it) => onAbort(it, () => abort(it)));
  else abort(aborted);
  return { signal: controller.signal, unlink };
}

/**
 * Longest delay of a timer, in milliseconds. With a longer delay, Node.js fires the timer
 * immediately.
 */
export const longestTimerMs = 2_147_483_647;

/** A time limit whose timer has been started. */
export interface TimeLimit {
  /** Aborted when the time has elapsed. */
  readonly signal: AbortSignal;
  /** Stops the timer. */
  clear(): void;
}

/**
 * Starts a time limit.
 * @param milliseconds - duration of the limit. Values above {@link longestTimerMs} (24.8 days) are
 * reduced to it
 */
export function timeLimit(milliseconds: number): TimeLimit {
  const time = new AbortController();
  const left = Math.min(Math.max(0, milliseconds), longestTimerMs);
  const timer = setTimeout(() => time.abort(), left);
  return { signal: time.signal, clear: () => clearTimeout(timer) };
}

/**
 * Returns the result of a promise, or `undefined` if the promise has not settled after
 * `milliseconds`.
 */
export async function inMilliseconds<T>(
  coming: Promise<T>,
  milliseconds: number,
): Promise<T | undefined> {
  const limit = timeLimit(milliseconds);
  return await inTime(coming, limit.signal).finally(limit.clear);
}

/**
 * Resolves after `milliseconds`, or immediately if the number is not positive. The timer does not
 * keep the process alive.
 */
export async function delay(milliseconds: number): Promise<void> {
  if (milliseconds > 0) await sleep(milliseconds, undefined, { ref: false });
}

/** Delays between attempts. */
export interface RetryDelays {
  /** Delay after the first failure, in milliseconds. It doubles with each failure. */
  readonly initialDelayMs: number;
  /** Maximum delay, in milliseconds. */
  readonly maxDelayMs: number;
}

/**
 * Returns the delay before the next attempt. Half of the delay is fixed and half is random, so that
 * clients that failed at the same time retry at different times.
 * @param failures - number of consecutive failures, 1 or more
 */
export function retryDelayMs(
  failures: number,
  { initialDelayMs, maxDelayMs }: RetryDelays,
  random: () => number,
): number {
  const whole = Math.min(maxDelayMs, initialDelayMs * 2 ** Math.min(failures - 1, 30));
  return whole / 2 + (whole / 2) * random();
}

/** Resolves after `milliseconds`, or as soon as one of the signals is aborted. */
export function sleepUntilAborted(
  milliseconds: number,
  ...signals: readonly AbortSignal[]
): Promise<void> {
  if (signals.some(({ aborted }) => aborted)) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      for (const cancel of cancels) cancel();
      resolve();
    };
    const timer = setTimeout(end, Math.min(Math.max(0, milliseconds), longestTimerMs));
    const cancels = signals.map((signal) => onAbort(signal, end));
  });
}
