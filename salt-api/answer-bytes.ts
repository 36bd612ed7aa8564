/** Limits the memory that the results of commands take until their response is sent. */

import type { FastifyReply } from 'fastify';
import type { WireValue } from '#minion-protocol';
import { type Budget, type BudgetPart, LimitExceeded, memoryOf, releaseAll } from '#runtime';
import { apiLimits } from './limits.ts';

/** Counts the bytes of the results in one response, until the response ends. */
export class AnswerBytes {
  readonly #budget: Budget;
  readonly #held: BudgetPart[] = [];
  #isReleased = false;

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  /**
   * Returns the byte counter of a response. When the response ends, the counter releases the bytes
   * that it has counted.
   */
  static of(budget: Budget, reply: FastifyReply): AnswerBytes {
    const bytes = new AnswerBytes(budget);
    if (reply.raw.closed) bytes.release();
    else reply.raw.once('close', () => bytes.release());
    return bytes;
  }

  /**
   * Counts the bytes of a result towards the limit of a user, until the response ends.
   * @throws LimitExceeded if the results of the user, or of all users, take too many bytes
   */
  take(owner: string, value: WireValue): void {
    if (!this.#isReleased) this.takeBytes(owner, memoryOf(value));
  }

  /**
   * Counts bytes of a result towards the limit of a user, until the response ends.
   * @throws LimitExceeded
   */
  takeBytes(owner: string, amount: number): void {
    if (this.#isReleased) return;
    const part = { budget: this.#budget, owner, amount };
    if (!this.#budget.tryTake(owner, part.amount)) throw new LimitExceeded(apiLimits.answerBytes);
    this.#held.push(part);
  }

  /**
   * Releases all counted bytes when the response ends. Later calls of {@link take} have no effect.
   */
  release(): void {
    this.#isReleased = true;
    releaseAll(this.#held.splice(0));
  }
}
