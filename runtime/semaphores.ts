import type { Limit } from './limits.ts';
import { LinkedList, type ListNode } from './linked-list.ts';

interface Turn extends ListNode<Turn> {
  readonly begin: () => void;
}

/** Limits the number of concurrent tasks. Further tasks wait in the order of their calls. */
class Permits {
  readonly #waiting = new LinkedList<Turn>();
  #free: number;

  constructor(permits: number) {
    this.#free = permits;
  }

  /** Runs `work` when a permit is free. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await this.#turn();
    try {
      return await work();
    } finally {
      const next = this.#waiting.first;
      if (next === undefined) this.#free += 1;
      else {
        this.#waiting.remove(next);
        next.begin();
      }
    }
  }

  #turn(): Promise<void> {
    return new Promise((begin) => {
      this.#waiting.append({ begin, previous: undefined, next: undefined });
    });
  }
}

/** Runs one task at a time, in the order of the calls. */
export class Mutex extends Permits {
  constructor() {
    super(1);
  }
}

/**
 * Limits the number of concurrent tasks, in the order of the calls. It does not distinguish owners.
 * Use `FairSlots` for tasks that clients cause.
 */
export class Semaphore extends Permits {
  /** @param permits - number of concurrent tasks. Default: `total` of `limit` */
  constructor(limit: Limit, permits: number = limit.total ?? Infinity) {
    super(permits);
  }
}

/**
 * Runs tasks with the same key one after the other, in the order of the calls. Tasks with different
 * keys run concurrently.
 */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs `work` after all earlier tasks with this key have settled. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve();
    const current = before.then(work, work);
    this.#last.set(key, current);
    try {
      return await current;
    } finally {
      if (this.#last.get(key) === current) this.#last.delete(key);
    }
  }
}
