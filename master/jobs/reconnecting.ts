import type { LastRequests } from '../auth/index.ts';

export interface ReconnectingOptions {
  /** Minions that had signed in before the master was restarted. */
  readonly signedIn: readonly string[];
  /**
   * Time for which transports retain a publication for minions that are not connected yet, in
   * milliseconds (`reconnect_wait`).
   */
  readonly waitMs: number;
  readonly lastRequests: Pick<LastRequests, 'onFirst'>;
  /** Clock: returns the time in milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * Time after the start of the master within which minions of all releases reconnect, in
 * milliseconds. Minions over ZeroMQ take up to 11 seconds (`recon_max`), minions of 3006 over TCP a
 * minute or more.
 */
const reconnectMs = 120_000;

/** Minions that had signed in before a restart of the master and have sent no request since. */
export class Reconnecting {
  readonly #waitMs: number;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #away: Set<string>;
  /**
   * Time of the first request since the restart, for each minion that has reconnected. In
   * milliseconds since 1970.
   */
  readonly #backAt = new Map<string, number>();

  constructor({ signedIn, waitMs, lastRequests, now }: ReconnectingOptions) {
    this.#waitMs = waitMs;
    this.#now = now;
    this.#startedAt = now();
    this.#away = new Set(signedIn);
    const stopListening = lastRequests.onFirst((id) => {
      if (this.#isOver()) stopListening();
      else if (this.#away.delete(id)) this.#backAt.set(id, now());
    });
  }

  /**
   * Returns how long transports must retain a publication for these minions, in milliseconds. The
   * result is 0 if all these minions have reconnected since the master started, or if the time to
   * reconnect is over.
   */
  holdMs(minionIds: readonly string[]): number {
    if (this.#isOver() || this.#away.size === 0) return 0;
    return minionIds.some((id) => this.#away.has(id)) ? this.#waitMs : 0;
  }

  /**
   * Whether a minion could not receive a job that was published at this time: it has not
   * reconnected since the master restarted, or reconnected too late. Always false from two minutes
   * after the start.
   * @param publishedAt - time in milliseconds since 1970
   */
  isReconnecting(minionId: string, publishedAt: number): boolean {
    if (this.#isOver()) return false;
    if (this.#away.has(minionId)) return true;
    const backAt = this.#backAt.get(minionId);
    if (backAt === undefined || publishedAt < this.#startedAt) return false;
    return backAt > publishedAt + this.#waitMs;
  }

  #isOver(): boolean {
    if (this.#now() < this.#startedAt + reconnectMs) return false;
    this.#away.clear();
    this.#backAt.clear();
    return true;
  }
}
