import { Semaphore } from './semaphore.ts';

/** Lets so many through at a time for each key; a slow one delays only those of its key. */
export class KeyedSemaphore {
  readonly #permits: number;
  readonly #semaphores = new Map<string, Semaphore>();

  constructor(permits: number) {
    this.#permits = permits;
  }

  /** Runs `work` once there is room for this key. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const semaphore = this.#semaphores.get(key) ?? new Semaphore(this.#permits);
    this.#semaphores.set(key, semaphore);
    try {
      return await semaphore.run(work);
    } finally {
      if (semaphore.isIdle) this.#semaphores.delete(key);
    }
  }
}
