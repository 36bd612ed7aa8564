import { type FairSlot, FairSlots, type Limit, LimitExceeded } from '#runtime';

interface SharedTask<T> {
  readonly result: Promise<T>;
  /** Requests for a slot, by owner. The first that gets a slot begins the task. */
  readonly requests: Map<string, FairSlot>;
  hasBegun: boolean;
  readonly begin: () => void;
}

/**
 * Runs tasks whose results several owners may request. Each task runs once for concurrent requests.
 * It begins when the first of its owners gets a slot. An owner with many requests therefore does
 * not delay a task that another owner requests too.
 */
export class SharedTasks<T> {
  readonly #limit: Limit;
  readonly #slots: FairSlots;
  readonly #tasks = new Map<string, SharedTask<T>>();

  constructor(limit: Limit) {
    this.#limit = limit;
    this.#slots = new FairSlots(limit);
  }

  /**
   * Returns the result of the task with this key. Runs `work` unless the task is already running.
   * @param mayWait - whether the task may wait for a slot
   * @throws LimitExceeded if no slot is free and the task may not wait
   */
  async run(key: string, owner: string, work: () => Promise<T>, mayWait: boolean): Promise<T> {
    const task = this.#tasks.get(key) ?? this.#create(key, work);
    if (!task.hasBegun && !task.requests.has(owner)) {
      const request = this.#slots.enter(owner, task.begin);
      if (!request.isWaiting || mayWait) task.requests.set(owner, request);
      else request.leave();
    }
    if (task.requests.size === 0) this.#tasks.delete(key);
    if (!task.hasBegun && !mayWait) throw new LimitExceeded(this.#limit);
    return task.result;
  }

  #create(key: string, work: () => Promise<T>): SharedTask<T> {
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const requests = new Map<string, FairSlot>();
    const begin = (): void => {
      task.hasBegun = true;
      resolve();
    };
    const run = async (): Promise<T> => {
      for (const request of requests.values()) if (request.isWaiting) request.leave();
      try {
        return await work();
      } finally {
        this.#tasks.delete(key);
        for (const request of requests.values()) request.leave();
      }
    };
    const task: SharedTask<T> = { result: begun.then(run), requests, hasBegun: false, begin };
    this.#tasks.set(key, task);
    return task;
  }
}
