/** Long work in steps, so that it never holds the event loop. */

import { type Channel, channel } from 'node:diagnostics_channel';

/** Amount of work of one synchronous step. What the engine reads or searches by itself has no values. */
export interface ReadingStep {
  readonly characters: number;
  readonly values: number;
}

/** Bounds of one step. */
export const maxReadingStep: ReadingStep = { characters: 140_000, values: 1000 };

/** Publishes the {@link ReadingStep} of every step that a scheduler ran. */
export const readingSteps: Channel = channel('saltbridge.reading.step');

interface ScheduledWork {
  /** Runs one step. @returns whether the work is complete */
  readonly advance: () => boolean;
}

/**
 * Runs long work in steps: one in each turn of the event loop, and each work in its turn. New work
 * runs its first two steps at once, which completes most work.
 */
export class StepScheduler {
  readonly #waiting: ScheduledWork[] = [];
  #isScheduled = false;

  /** @returns the result of the work; rejects with what it throws */
  run<T>(steps: Generator<ReadingStep, T, void>): Promise<T> {
    return new Promise((resolve, reject) => {
      const advance = (): boolean => {
        try {
          const { done, value } = steps.next();
          if (done === true) resolve(value);
          else readingSteps.publish(value);
          return done === true;
        } catch (error) {
          reject(error);
          return true;
        }
      };
      if (advance() || advance()) return;
      this.#waiting.push({ advance });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.length === 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      const next = this.#waiting.shift();
      if (next !== undefined && !next.advance()) this.#waiting.push(next);
      this.#schedule();
    });
  }
}
