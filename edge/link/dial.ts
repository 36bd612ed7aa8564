/**
 * Opens a connection with several overlapping attempts. If the network was interrupted during an
 * attempt, the operating system waits up to a minute before it sends a lost packet again. A new
 * attempt sends a new packet, and therefore reaches the centre sooner.
 */

import { codeOf } from '#runtime';
import { EdgeError } from '../errors.ts';

/**
 * Interval at which new attempts begin, in milliseconds. The interval grows if the centre is
 * unreachable for a long time.
 */
const defaultIntervalMs = 500;

/**
 * Time without a connection after which the interval between new attempts is four times as long as
 * normal, in milliseconds.
 */
const longMs = 120_000;

/**
 * Time after which an attempt ends if its TCP connection to the centre is not open yet, in
 * milliseconds.
 */
const reachMs = 7000;

/** Maximum number of concurrent attempts to connect while no attempt has reached the centre yet. */
const maxReaching = 14;

/**
 * Maximum number of handshakes at a time on a slow link. A lost packet delays a handshake on such a
 * link by several seconds, so parallel handshakes save time. More handshakes would overload the
 * link. On other links, only one handshake runs at a time.
 */
const maxHandshakes = 3;

/**
 * Time to connect from which a link counts as slow, in milliseconds. It is measured from the
 * beginning of an attempt until the TCP connection to the centre is open.
 */
const defaultSlowMs = 500;

/** Functions that an attempt calls to report its progress. */
export interface DialProgress {
  /** Called when the host name of the centre is resolved to an IP address. */
  onResolved(): void;
  /**
   * Called when the centre has accepted the TCP connection. Throws if the attempt must not
   * continue.
   */
  onReached(): void;
}

/** Opens one connection. Rejects when the signal is aborted. */
export type DialAttempt<T> = (signal: AbortSignal, progress: DialProgress) => Promise<T>;

export interface DialOptions {
  readonly signal: AbortSignal;
  /** Called with the reason when an attempt has not reached the centre in time. */
  readonly onUnreached: (error: EdgeError) => void;
  readonly intervalMs?: number;
  readonly slowMs?: number;
}

interface Running {
  readonly end: AbortController;
  readonly begunAt: number;
  isResolved: boolean;
  /**
   * Duration until the attempt reached the centre, in milliseconds. `undefined` if it has not
   * reached the centre yet.
   */
  reachedMs: number | undefined;
}

/**
 * Starts overlapping attempts until one succeeds, and then ends the other attempts.
 * @returns result of the first attempt that succeeded
 * @throws the error of an attempt if no other attempt is in progress, or if the error is not
 * ERR_SITE_LINK
 */
export function dial<T>(
  attempt: DialAttempt<T>,
  { signal, onUnreached, intervalMs = defaultIntervalMs, slowMs = defaultSlowMs }: DialOptions,
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
          const excess = excessOf([...running], slowMs);
          for (const each of excess) {
            running.delete(each);
            each.end.abort();
          }
          if (excess.includes(own)) throw new EdgeError('ERR_SITE_LINK', 'enough attempts');
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
      if (!isRare && mayLaunch([...running], slowMs)) launch();
    };
    const timer = setInterval(advance, intervalMs);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    else launch();
  });
}

function mayLaunch(running: readonly Running[], slowMs: number): boolean {
  // A look-up occupies a thread of the process.
  if (running.some(({ isResolved }) => !isResolved)) return false;
  const permitted = handshakesOf(running, slowMs);
  return running.length < (permitted === 0 ? maxReaching : permitted);
}

/**
 * Returns the connection attempts to abort, because only a limited number may do the handshake at a
 * time. As soon as this number has reached the centre, those that reached it first continue. All
 * others are aborted.
 */
function excessOf(running: readonly Running[], slowMs: number): readonly Running[] {
  const permitted = handshakesOf(running, slowMs);
  const reached = running.filter(({ reachedMs }) => reachedMs !== undefined);
  if (reached.length < permitted) return [];
  const kept = new Set(reached.toSorted((a, b) => reachedAt(a) - reachedAt(b)).slice(0, permitted));
  return running.filter((each) => !kept.has(each));
}

/**
 * Returns the maximum number of handshakes at a time, or 0 while no attempt has reached the centre.
 */
function handshakesOf(running: readonly Running[], slowMs: number): number {
  const reached = running.flatMap(({ reachedMs }) => (reachedMs === undefined ? [] : [reachedMs]));
  if (reached.length === 0) return 0;
  return reached.some((ms) => ms >= slowMs) ? maxHandshakes : 1;
}

function reachedAt({ begunAt, reachedMs = 0 }: Running): number {
  return begunAt + reachedMs;
}
