import { type Channel, channel } from 'node:diagnostics_channel';
import type { ReadingStep } from './json.ts';

/** Tells {@link ReadingStep} of every step that a scheduler ran, to whoever subscribes. */
export const readingSteps: Channel = channel('saltbridge.reading.step');

interface ScheduledWork {
  /** Whether it is done. */
  readonly advance: () => boolean;
}

/**
 * Does long work in steps: one for each turn of the event loop, however much work there is, and each
 * work in its turn. New work does its first two at once: most is done with them.
 */
export class StepScheduler {
  readonly #waiting: ScheduledWork[] = [];
  #isScheduled = false;

  /** @throws what the work throws */
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
