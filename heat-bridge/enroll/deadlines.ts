/** What ends because its time is over. */
import type { Logger } from 'pino';
import type { EnrolmentBook } from './enrolment-book.ts';
import type { EnrolmentMoves } from './moves.ts';

/** Milliseconds between two looks. */
const roundMs = 2000;

/** What {@link Deadlines} needs. */
export interface DeadlineParts {
  readonly book: EnrolmentBook;
  readonly moves: EnrolmentMoves;
  readonly now: () => number;
  readonly log: Logger;
}

/** Looks every two seconds. */
export class Deadlines {
  readonly #parts: DeadlineParts;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();

  constructor(parts: DeadlineParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = setInterval(() => this.#next(), roundMs).unref();
  }

  /** Ends what is over now. @throws what the store or the keys throw */
  async round(): Promise<void> {
    const { book, moves, now } = this.#parts;
    const time = now();
    book.prune();
    for (const enrolment of [...book.all()]) {
      const { state, id, deadline = Infinity, keyExpiresAt = Infinity } = enrolment;
      if (state === 'open' && time >= deadline) {
        await moves.fail(enrolment, 'no machine showed the ticket in time');
      } else if (state === 'accepted' && time >= deadline) {
        await moves.fail(enrolment, 'the minion did not sign in in time');
      } else if ((state === 'accepted' || state === 'signed-in') && time >= keyExpiresAt) {
        await moves.retire(id);
      }
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#round;
  }

  /** One at a time. */
  #next(): void {
    this.#round = this.#round
      .then(() => this.round())
      .catch((error: unknown) => {
        // What could not be ended is ended by a later round.
        this.#parts.log.error({ err: error }, 'enrolments were not ended');
      });
  }
}
