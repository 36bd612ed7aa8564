import { setTimeout as sleep } from 'node:timers/promises';

/** What comes; `undefined` where the signal fires first. */
export async function inTime<T>(coming: Promise<T>, end: AbortSignal): Promise<T | undefined> {
  let onAbort = (): void => {};
  const ended = new Promise<undefined>((resolve) => {
    onAbort = () => resolve(undefined);
    if (end.aborted) onAbort();
    else end.addEventListener('abort', onAbort);
  });
  try {
    return await Promise.race([coming, ended]);
  } finally {
    // The signal may live as long as the process.
    end.removeEventListener('abort', onAbort);
  }
}

/**
 * One signal of several. `AbortSignal.any` of Node.js 24 keeps a signal that has a listener as long as
 * its sources live: 1.2 KB for each request that listens to the end of the master.
 */
export interface LinkedSignal {
  /** Aborted as soon as one of the others is, with its reason. */
  readonly signal: AbortSignal;
  /** Stops listening to the others, as does the abort of one of them. */
  unlink(): void;
}

/** @param signals - those that may be missing are left out */
export function linkSignals(...signals: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  const sources = signals.filter((signal) => signal !== undefined);
  const unlink = (): void => {
    for (const source of sources) source.removeEventListener('abort', onAbort);
  };
  const onAbort = (event: Event): void => abort(event.target);
  const abort = (source: unknown): void => {
    unlink();
    controller.abort(source instanceof AbortSignal ? source.reason : undefined);
  };
  const aborted = sources.find((source) => source.aborted);
  if (aborted === undefined) for (const it of sources) it.addEventListener('abort', onAbort);
  else abort(aborted);
  return { signal: controller.signal, unlink };
}

/** Node fires longer timers at once. */
export const longestTimerMs = 2_147_483_647;

/** A time that passes. */
export interface TimeLimit {
  /** Fires when it has. */
  readonly signal: AbortSignal;
  /** It is waited for no longer. */
  clear(): void;
}

/** Begins now. @param milliseconds longer ones end where timers do, after 24 days */
export function timeLimit(milliseconds: number): TimeLimit {
  const time = new AbortController();
  const left = Math.min(Math.max(0, milliseconds), longestTimerMs);
  const timer = setTimeout(() => time.abort(), left);
  return { signal: time.signal, clear: () => clearTimeout(timer) };
}

/** What comes; `undefined` where it takes longer. */
export async function inMilliseconds<T>(
  coming: Promise<T>,
  milliseconds: number,
): Promise<T | undefined> {
  const limit = timeLimit(milliseconds);
  return await inTime(coming, limit.signal).finally(limit.clear);
}

/**
 * Waits `milliseconds`; without a detour if there is nothing to wait for. A process that has nothing
 * else to do does not live for it.
 */
export async function delay(milliseconds: number): Promise<void> {
  if (milliseconds > 0) await sleep(milliseconds, undefined, { ref: false });
}

/** Delays between attempts, milliseconds. */
export interface RetryDelays {
  /** After the first failure; doubled with each. */
  readonly initialDelayMs: number;
  /** Never longer. */
  readonly maxDelayMs: number;
}

/**
 * The delay after some failures in a row. Half of it is certain, half is chance, so that what failed
 * together does not come back together.
 * @param failures 1 or more
 */
export function retryDelayMs(
  failures: number,
  { initialDelayMs, maxDelayMs }: RetryDelays,
  random: () => number,
): number {
  const whole = Math.min(maxDelayMs, initialDelayMs * 2 ** Math.min(failures - 1, 30));
  return whole / 2 + (whole / 2) * random();
}

/** Waits so long, or until one of the signals. */
export function sleepUntilAborted(
  milliseconds: number,
  ...signals: readonly AbortSignal[]
): Promise<void> {
  if (signals.some(({ aborted }) => aborted)) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      for (const signal of signals) signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(Math.max(0, milliseconds), longestTimerMs));
    for (const signal of signals) signal.addEventListener('abort', end, { once: true });
  });
}
