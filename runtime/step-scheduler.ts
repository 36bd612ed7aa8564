/** Runs long work in steps, so that it never blocks the event loop. */

import { type Channel, channel } from 'node:diagnostics_channel';

/**
 * Amount of work in one synchronous step: the characters read or written, and the values created or
 * visited. Work that the JavaScript engine does natively, such as searching, is not counted.
 */
export interface ReadingStep {
  readonly characters: number;
  readonly values: number;
}

/** Maximum numbers of characters and values that one step of reading processes. */
export const maxReadingStep: ReadingStep = { characters: 140_000, values: 1000 };

/**
 * Diagnostics channel to which schedulers publish the {@link ReadingStep} of every step that they
 * have run.
 */
export const readingSteps: Channel = channel('saltbridge.reading.step');

interface ScheduledWork {
  /**
   * Runs one step.
   * @returns whether the work is complete
   */
  readonly advance: () => boolean;
}

/**
 * Runs long work in steps. Each turn of the event loop runs one step, and tasks take turns. The
 * first two steps of new work run synchronously, which is enough for most work.
 */
export class StepScheduler {
  readonly #waiting: ScheduledWork[] = [];
  #isScheduled = false;

  /**
   * Runs all steps of the work.
   * @returns the result of the work. Rejects with the error of the work
   */
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
