/**
 * Reads responses of OpenStack services in steps, because a response contains text of a tenant and
 * may be large. Each owner of stacks has a limited number of slots, and reading a response occupies
 * one of them. After a large response was read, its slot stays occupied for some seconds. No owner
 * can therefore use the main thread continuously.
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

/** Result of reading a response, or the reason why it could not be read. */
export type Reading<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly reason: string };

/**
 * Number of values for which a response occupies its slot one millisecond longer. For example, a
 * response with 100,000 values occupies it for 4 seconds after it was read.
 */
const workPerMs = 25;
/**
 * Number of characters that count as one value. Reading this many characters takes about as long as
 * reading one value.
 */
const charactersPerValue = 50;

/**
 * Reads responses in steps. The limit `metadataReadings` states how many responses of one owner are
 * read at a time.
 */
export class AnswerReadings {
  readonly #slots = new FairSlots(guestLimits.metadataReadings);
  readonly #scheduler = new StepScheduler();

  /**
   * Reads a response as soon as a slot is free for the owner. The limit `metadataReadings` defines
   * the number of slots.
   * @param work - generator that reads the response in steps
   * @returns the result of `work`, or the reason for a failure: the response is not valid JSON, a
   * limit is exceeded, or the master is closing
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

/**
 * Maximum nesting of a response, in levels. Heat itself cannot read a response with more levels.
 */
const maxAnswerDepth = 1_000;
/** A response may contain one value for each 20 bytes of its maximum size. */
const bytesPerValue = 20;
/** Number of values that every response may contain, even if its maximum size is small. */
const alwaysPermittedValues = 10_000;

/**
 * Returns options for reading a response in steps. Maps in the result have the same prototype as
 * those that `JSON.parse` returns.
 * @param maxBytes - maximum size of the response
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
