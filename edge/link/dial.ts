/**
 * Opens a connection by several attempts that overlap. After an interruption, the system waits up to
 * a minute before it repeats a lost packet of an old attempt, so new attempts reach the centre
 * sooner.
 */

import { codeOf } from '#runtime';
import { EdgeError } from '../errors.ts';

/** Interval of the attempts, in milliseconds. It grows when the centre is away for a long time. */
const defaultIntervalMs = 500;

/** Duration after which the interval is four times as long, in milliseconds. */
const longMs = 120_000;

/** Maximum duration until an attempt has reached the centre, in milliseconds. */
const reachMs = 7000;

/** Maximum number of attempts that have not reached the centre yet. */
const maxReaching = 14;

/**
 * Maximum number of attempts on a slow link after one has reached the centre. Each lost packet of a
 * handshake costs several seconds there. On other links one attempt continues.
 */
const maxReached = 3;

/** Duration of reaching the centre from which a link counts as slow, in milliseconds. */
const slowMs = 500;

/** Progress of an attempt. */
export interface DialProgress {
  /** The address of the centre is known. */
  onResolved(): void;
  /** The centre has accepted the TCP connection. */
  onReached(): void;
}

/** Opens one connection. Rejects when the signal is aborted. */
export type DialAttempt<T> = (signal: AbortSignal, progress: DialProgress) => Promise<T>;

export interface DialOptions {
  readonly signal: AbortSignal;
  /** Called with the reason when an attempt has not reached the centre in time. */
  readonly onUnreached: (error: EdgeError) => void;
  readonly intervalMs?: number;
}

interface Running {
  readonly end: AbortController;
  readonly begunAt: number;
  isResolved: boolean;
  /** Duration until the attempt reached the centre, in milliseconds. */
  reachedMs: number | undefined;
}

/**
 * Repeats attempts until one succeeds, and ends the others.
 * @returns result of the first attempt that succeeded
 * @throws the error of an attempt, if no other attempt is in progress or the centre refused the site
 */
export function dial<T>(
  attempt: DialAttempt<T>,
  { signal, onUnreached, intervalMs = defaultIntervalMs }: DialOptions,
): Promise<T> {
  const running = new Set<Running>();
  const begunAt = performance.now();
  let lastAt = 0;
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearInterval(timer);
      signal.removeEventListener('abort', abort);
      for (const each of running) each.end.abort();
      running.clear();
    };
    const abort = (): void => {
      end();
      reject(signal.reason);
    };
    const launch = (): void => {
      const own: Running = {
        end: new AbortController(),
        begunAt: performance.now(),
        isResolved: false,
        reachedMs: undefined,
      };
      running.add(own);
      lastAt = own.begunAt;
      const progress: DialProgress = {
        onResolved: () => {
          own.isResolved = true;
        },
        onReached: () => {
          own.isResolved = true;
          own.reachedMs = performance.now() - own.begunAt;
        },
      };
      attempt(own.end.signal, progress).then(
        (result) => {
          if (!running.delete(own)) return;
          end();
          resolve(result);
        },
        (error: unknown) => {
          if (!running.delete(own)) return;
          if (running.size > 0 && codeOf(error) === 'ERR_SITE_LINK') return;
          end();
          reject(error);
        },
      );
    };
    const advance = (): void => {
      for (const each of running) {
        const isLate = performance.now() - each.begunAt > reachMs;
        if (each.reachedMs !== undefined || !each.isResolved || !isLate) continue;
        running.delete(each);
        each.end.abort();
        onUnreached(new EdgeError('ERR_SITE_LINK', 'cannot connect to the centre: no answer'));
      }
      const now = performance.now();
      const isRare = now - begunAt > longMs && now - lastAt < 4 * intervalMs;
      if (!isRare && mayLaunch([...running])) launch();
    };
    const timer = setInterval(advance, intervalMs);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    else launch();
  });
}

function mayLaunch(running: readonly Running[]): boolean {
  // A look-up occupies a thread of the process.
  if (running.some(({ isResolved }) => !isResolved)) return false;
  const reached = running.filter(({ reachedMs }) => reachedMs !== undefined);
  if (reached.length === 0) return running.length < maxReaching;
  const isSlow = reached.some(({ reachedMs = 0 }) => reachedMs >= slowMs);
  return isSlow && running.length < maxReached;
}
