/** Deadlines of enrolments. */

import type { Logger } from 'pino';
import type { AuditBursts } from '#master';
import type { Enrolment } from './enrolment.ts';
import type { EnrolmentParts, EnrolmentTransitions } from './enrolment-transitions.ts';

/** Milliseconds between two looks. */
const checkIntervalMs = 2000;

export interface DeadlineParts extends Pick<EnrolmentParts, 'book' | 'now'> {
  readonly moves: EnrolmentTransitions;
  readonly bursts: AuditBursts;
  /** Whether this master, and no other member of its cluster, ends what is over. */
  readonly isActive: () => boolean;
  readonly log: Logger;
}

/** Looks every two seconds. */
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

  /** Ends what is over now. @throws what the store or the keys throw */
  async endExpired(): Promise<void> {
    const { book, bursts, moves, isActive } = this.#parts;
    book.prune();
    bursts.flushIfDue();
    if (!isActive()) return;
    for (const enrolment of [...book.all()]) {
      if (this.#endOf(enrolment) === undefined) continue;
      // It may have become something else before its turn comes.
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

  /** What is to become of an enrolment whose time is over; `undefined`: it is not. */
  #endOf(enrolment: Enrolment): 'retire' | { readonly reason: string } | undefined {
    const { state, deadline = Infinity, keyExpiresAt = Infinity } = enrolment;
    const time = this.#parts.now();
    if (state === 'open' && time >= deadline) {
      return { reason: 'no machine showed the ticket in time' };
    }
    if (state === 'accepted' && time >= deadline) {
      return { reason: 'the minion did not sign in in time' };
    }
    const hasKey = state === 'accepted' || state === 'signed-in';
    return hasKey && time >= keyExpiresAt ? 'retire' : undefined;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#round;
  }

  /** One at a time. */
  #next(): void {
    this.#round = this.#round
      .then(() => this.endExpired())
      .catch((error: unknown) => {
        // What could not be ended is ended by a later round.
        this.#parts.log.error({ err: error }, 'enrolments were not ended');
      });
  }
}
