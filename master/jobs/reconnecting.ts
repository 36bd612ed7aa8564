/** Minions that come back after a restart of the master. */

import type { LastHeard } from '../auth/index.ts';

export interface ReconnectingOptions {
  /** Minions that had signed in when the master started. */
  readonly signedIn: readonly string[];
  /** How long a publication waits for those that are away, milliseconds (`reconnect_wait`). */
  readonly waitMs: number;
  readonly lastHeard: Pick<LastHeard, 'onFirst'>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * From the start of the master until every release has reconnected by itself, milliseconds:
 * minions over ZeroMQ wait up to 11 seconds (`recon_max`), 3006 over TCP a minute or more.
 */
const reconnectMs = 120_000;

/** Minions that had signed in before the master was restarted, and have not been heard since. */
export class Reconnecting {
  readonly #waitMs: number;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #away: Set<string>;
  /** When the others were heard first, milliseconds since 1970. */
  readonly #backAt = new Map<string, number>();

  constructor({ signedIn, waitMs, lastHeard, now }: ReconnectingOptions) {
    this.#waitMs = waitMs;
    this.#now = now;
    this.#startedAt = now();
    this.#away = new Set(signedIn);
    const stopListening = lastHeard.onFirst((id) => {
      if (this.#isOver()) stopListening();
      else if (this.#away.delete(id)) this.#backAt.set(id, now());
    });
  }

  /** How long a publication to these minions is held for those that subscribe later, milliseconds. */
  holdMs(minionIds: readonly string[]): number {
    if (this.#isOver() || this.#away.size === 0) return 0;
    return minionIds.some((id) => this.#away.has(id)) ? this.#waitMs : 0;
  }

  /** Whether a minion is away, or came back too late for a job that was published meanwhile. */
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
