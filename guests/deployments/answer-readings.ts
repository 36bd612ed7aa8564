/**
 * Reads the answers of services in steps, because an answer contains text of a tenant. After a large
 * answer, its owner has one place fewer for some seconds, so that no owner uses the main thread
 * continuously.
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

/** Result of work in steps, or the reason why the answer could not be read. */
export type Reading<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly reason: string };

/** Amount of work for which a place stays in use for one millisecond longer. */
const workPerMs = 25;
/** Number of characters that count like one value. Reading them takes about the same time. */
const charactersPerValue = 50;

/** Places in which answers are read. The number of places of one owner is limited. */
export class AnswerReadings {
  readonly #slots = new FairSlots(guestLimits.metadataReadings);
  readonly #scheduler = new StepScheduler();

  /** Runs work when the owner has a free place. */
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
/** Average size of a value below which an answer is rejected, in bytes. */
const bytesPerValue = 20;
/** Number of values that each answer may have. */
const alwaysPermittedValues = 10_000;

/** Returns options for reading an answer of at most `maxBytes` with the result of `JSON.parse`. */
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
