/** Limits the memory that the results of commands take until their response is sent. */

import type { FastifyReply } from 'fastify';
import type { WireValue } from '#minion-protocol';
import { type Budget, LimitExceeded, memoryOf } from '#runtime';
import { apiLimits } from './limits.ts';

/** Bytes of the results in one response. */
export class AnswerBytes {
  readonly #budget: Budget;
  readonly #held: { readonly owner: string; readonly amount: number }[] = [];
  #isReleased = false;

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  /** Returns the counter of a response. It releases the bytes when the response ends. */
  static of(budget: Budget, reply: FastifyReply): AnswerBytes {
    const bytes = new AnswerBytes(budget);
    if (reply.raw.closed) bytes.release();
    else reply.raw.once('close', () => bytes.release());
    return bytes;
  }

  /**
   * Counts a result for a user.
   * @throws LimitExceeded if the results of the user, or of all users, take too many bytes
   */
  take(owner: string, value: WireValue): void {
    if (this.#isReleased) return;
    const amount = memoryOf(value);
    if (!this.#budget.tryTake(owner, amount)) {
      throw new LimitExceeded(apiLimits.answerBytes, apiLimits.answerBytes.perOwner ?? 0);
    }
    this.#held.push({ owner, amount });
  }

  /** Releases all bytes. Later results are not counted, because no response contains them. */
  release(): void {
    this.#isReleased = true;
    for (const { owner, amount } of this.#held.splice(0)) this.#budget.release(owner, amount);
  }
}
