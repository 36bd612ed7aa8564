import { BoundedQueue } from '#runtime';
import { type JobUpdate, MasterError } from '../api/index.ts';
import { jobLimits } from './limits.ts';

/**
 * Event that {@link ParallelJobs.next} returns: an update, the end or the failure of a job, or a
 * call of {@link ParallelJobs.wake}.
 */
export type JobsEvent =
  | { readonly type: 'update'; readonly update: JobUpdate }
  | { readonly type: 'ended'; readonly minions: readonly string[] }
  | { readonly type: 'failed'; readonly error: unknown }
  | { readonly type: 'woken' };

/** Follows several jobs concurrently, and merges their updates into one sequence. */
export class ParallelJobs {
  readonly #run: (minions: readonly string[]) => AsyncIterable<JobUpdate>;
  readonly #events = new BoundedQueue<JobsEvent>(jobLimits.parallelJobUpdates, tooManyUpdates);
  #running = 0;

  constructor(run: (minions: readonly string[]) => AsyncIterable<JobUpdate>) {
    this.#run = run;
  }

  get isBusy(): boolean {
    return this.#running > 0;
  }

  start(minions: readonly string[]): void {
    if (minions.length === 0) return;
    this.#running += 1;
    void this.#follow(minions);
  }

  /**
   * Makes a waiting call of {@link next} return an event of type `woken`, although no job has an
   * update.
   */
  wake(): void {
    this.#events.push({ type: 'woken' });
  }

  /**
   * Waits for the next event of any job, and returns it.
   * @throws the error of a job that failed
   */
  async next(): Promise<JobsEvent> {
    const { value, done } = await this.#events.next();
    if (done) return { type: 'woken' };
    if (value.type === 'failed') throw value.error;
    if (value.type === 'ended') this.#running -= 1;
    return value;
  }

  async #follow(minions: readonly string[]): Promise<void> {
    try {
      for await (const update of this.#run(minions)) this.#events.push({ type: 'update', update });
      this.#events.push({ type: 'ended', minions });
    } catch (error) {
      this.#events.push({ type: 'failed', error });
    }
  }
}

function tooManyUpdates(): Error {
  return new MasterError(
    'ERR_JOB_LIMIT',
    'too many unread returns: the caller of this batch does not read them',
  );
}
