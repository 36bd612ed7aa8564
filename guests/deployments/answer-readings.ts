/**
 * Reads the answers of services in steps, because an answer contains text of a tenant and may be
 * large. The number of answers of one owner that are read at a time is limited. A large answer
 * still counts towards this limit for some seconds after it was read. No owner can therefore use
 * the main thread continuously.
 */

import {
  FairSlots,
  inTime,
  JsonError,
  type JsonOptions,
  LimitExceeded,
  type ReadingStep,
  StepScheduler,
} from '#runtime';
import { guestLimits } from '../limits.ts';

/** Result of reading an answer, or the reason why it could not be read. */
export type Reading<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly reason: string };

/**
 * Divisor that converts the number of values in an answer to milliseconds. For this time after it
 * was read, an answer still counts towards the limit of its owner.
 */
const workPerMs = 25;
/**
 * Number of characters that count as one value. Reading them takes about the same time as reading a
 * value.
 */
const charactersPerValue = 50;

/**
 * Reads answers in steps. The limit `metadataReadings` states how many answers of one owner are
 * read at a time.
 */
export class AnswerReadings {
  readonly #slots = new FairSlots(guestLimits.metadataReadings);
  readonly #scheduler = new StepScheduler();

  /**
   * Reads an answer. If the owner already has its maximum number of answers, first waits until one
   * of them no longer counts.
   * @param work - reads the answer in steps
   * @returns the result of `work`; the reason if the answer is not valid JSON, if a limit is
   * exceeded, or if the master is closing
   */
  async run<T>(
    owner: string,
    closing: AbortSignal,
    work: Generator<ReadingStep, T, void>,
  ): Promise<Reading<T>> {
    const { promise: entered, resolve } = Promise.withResolvers<true>();
    let amount = 0;
    try {
      const slot = this.#slots.enter(owner, () => resolve(true));
      try {
        if ((await inTime(entered, closing)) !== true) {
          return { ok: false, reason: 'the master is closing' };
        }
        const counted = countSteps(work, (more) => {
          amount += more;
        });
        return { ok: true, value: await this.#scheduler.run(counted) };
      } finally {
        if (amount < workPerMs) slot.leave();
        else setTimeout(() => slot.leave(), amount / workPerMs).unref();
      }
    } catch (error) {
      if (error instanceof LimitExceeded) return { ok: false, reason: error.message };
      if (!(error instanceof JsonError)) throw error;
      const isLimit = error.reason === 'limit';
      return {
        ok: false,
        reason: isLimit ? `the response has ${error.message}` : 'the response is not JSON',
      };
    }
  }
}

function* countSteps<T>(
  work: Generator<ReadingStep, T, void>,
  add: (amount: number) => void,
): Generator<ReadingStep, T, void> {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
    add(value.values + value.characters / charactersPerValue);
    yield value;
  }
}

/** Maximum nesting of an answer, in levels. Heat itself cannot read a deeper one. */
const maxAnswerDepth = 1_000;
/**
 * Minimum average size of the values in an answer, in bytes. With the maximum size of an answer, it
 * determines the maximum number of values.
 */
const bytesPerValue = 20;
/**
 * Number of values that an answer may always have, even if the maximum size of an answer is small.
 */
const alwaysPermittedValues = 10_000;

/**
 * Returns options for reading an answer in steps. Maps in the result have the same prototype as
 * those that `JSON.parse` returns.
 * @param maxBytes - maximum size of the answer
 */
export function answerOptions<T = never>(
  maxBytes: number,
): Pick<JsonOptions<T>, 'maxDepth' | 'maxValues' | 'replaceMap'> {
  const maxValues = Math.max(alwaysPermittedValues, Math.floor(maxBytes / bytesPerValue));
  return {
    maxDepth: maxAnswerDepth,
    maxValues,
    replaceMap: (map) => Object.setPrototypeOf(map, Object.prototype),
  };
}
