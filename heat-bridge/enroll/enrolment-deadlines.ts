/** Deadlines of enrolments. */

import type { Logger } from 'pino';
import type { AuditBursts } from '#master';
import type { Enrolment } from './enrolment.ts';
import type { EnrolmentParts, EnrolmentTransitions } from './enrolment-transitions.ts';

/** Interval between two checks, in milliseconds. */
const checkIntervalMs = 2000;

export interface DeadlineParts extends Pick<EnrolmentParts, 'book' | 'now'> {
  readonly moves: EnrolmentTransitions;
  readonly bursts: AuditBursts;
  /** Whether this master, and no other member of its cluster, ends expired enrolments. */
  readonly isActive: () => boolean;
  readonly log: Logger;
}

/** Ends expired enrolments, checking every two seconds. */
export class EnrolmentDeadlines {
  readonly #parts: DeadlineParts;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();

  constructor(parts: DeadlineParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = setInterval(() => this.#next(), checkIntervalMs).unref();
  }

  /**
   * Ends the enrolments that have expired.
   * @throws errors of the store and of key operations
   */
  async endExpired(): Promise<void> {
    const { book, bursts, moves, isActive } = this.#parts;
    book.prune();
    bursts.flushIfDue();
    if (!isActive()) return;
    for (const enrolment of [...book.all()]) {
      if (this.#endOf(enrolment) === undefined) continue;
      // The state may change before the enrolment's turn comes.
      await moves.exclusive(enrolment, async (current) => this.#end(current));
    }
  }

  async #end(enrolment: Enrolment | undefined): Promise<void> {
    if (enrolment === undefined) return;
    const { moves } = this.#parts;
    const end = this.#endOf(enrolment);
    if (end === undefined) return;
    if (end === 'retire') await moves.retire(enrolment.id);
    else await moves.fail(enrolment, end.reason);
  }

  /** Returns how to end an expired enrolment, or `undefined` if it has not expired. */
  #endOf(enrolment: Enrolment): 'retire' | { readonly reason: string } | undefined {
    const { state, deadline = Infinity, keyExpiresAt = Infinity } = enrolment;
    const time = this.#parts.now();
    if (state === 'open' && time >= deadline) {
      return { reason: 'no machine used the ticket before it expired' };
    }
    if (state === 'accepted' && time >= deadline) {
      return { reason: 'the minion did not sign in before the deadline' };
    }
    const hasKey = state === 'accepted' || state === 'signed-in';
    return hasKey && time >= keyExpiresAt ? 'retire' : undefined;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#round;
  }

  /** Starts the next round after the current one. */
  #next(): void {
    this.#round = this.#round
      .then(() => this.endExpired())
      .catch((error: unknown) => {
        // A later round retries.
        this.#parts.log.error({ err: error }, 'expired enrolments could not be ended; retrying');
      });
  }
}
