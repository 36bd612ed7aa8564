import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { type FairSlot, FairSlots } from './fair-slots.ts';
import type { Limit, LimitValues } from './limits.ts';

/**
 * Options of a worker pool. A worker script posts `'ready'` when it can receive messages. Then it
 * posts exactly one message for each message that it receives.
 */
export interface WorkerPoolOptions {
  /** URL of the worker script. */
  readonly script: URL;
  /**
   * Maximum number of threads, without reserved ones. Default: one less than the number of
   * processors, but at least 1 and at most 2. A new thread starts only if all others are busy. With
   * `reserved`, the limit of the pool adds threads for owners that have no running task.
   */
  readonly threads?: number;
  /** Maximum number of waiting tasks. Default: `waiting` of the limit. */
  readonly waiting?: LimitValues['waiting'];
  /** Timeout of a task, in milliseconds, after which its thread is terminated. Default: 30,000. */
  readonly deadlineMs?: number;
  /**
   * Time after which an idle thread is ended, in milliseconds. Default: threads run until
   * {@link WorkerPool.close}.
   */
  readonly idleMs?: number;
  /**
   * Maximum heap size of a thread, in MiB. A thread that exceeds it ends, but the process
   * continues. Default: 512.
   */
  readonly memoryMb?: number;
}

/** Error of a task that the pool could not complete. */
export class WorkerPoolError extends Error {
  override readonly name = 'WorkerPoolError';
  /**
   * `busy`: too many tasks wait; `deadline`: the task took too long; `crashed`: its thread ended,
   * usually because it ran out of memory; `closed`: the pool was closed; `not-cloneable`: the task
   * cannot be sent to a thread.
   */
  readonly reason: 'busy' | 'deadline' | 'crashed' | 'closed' | 'not-cloneable';

  constructor(reason: WorkerPoolError['reason'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

interface WaitingTask<Task, Result> {
  readonly task: Task;
  /** Slot that the task holds or waits for. */
  slot: FairSlot | undefined;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: WorkerPoolError) => void;
}

interface PoolThread<Task, Result> {
  readonly worker: Worker;
  /**
   * Whether the thread has started and accepts messages. The deadline of a task runs only from then
   * on.
   */
  isReady: boolean;
  waiting: WaitingTask<Task, Result> | undefined;
  /** Timer for the deadline of the current task, or for the end of the idle time. */
  timer: NodeJS.Timeout | undefined;
}

/**
 * A pool of threads for work that would block the main thread. Each thread performs one task at a
 * time. Owners take turns.
 */
export class WorkerPool<Task, Result> {
  readonly #members = new Set<PoolThread<Task, Result>>();
  readonly #queue = new Set<WaitingTask<Task, Result>>();
  readonly #slots: FairSlots;
  readonly #script: URL;
  readonly #deadlineMs: number;
  readonly #idleMs: number | undefined;
  readonly #memoryMb: number;
  #isClosed = false;

  constructor(limit: Limit, options: WorkerPoolOptions) {
    this.#script = options.script;
    const { perOwner, reserved = 0 } = limit;
    const { waiting = limit.waiting } = options;
    const threads = options.threads ?? Math.max(1, Math.min(2, availableParallelism() - 1));
    this.#slots = new FairSlots(limit, {
      perOwner,
      total: threads + reserved,
      reserved,
      waiting,
    });
    this.#deadlineMs = options.deadlineMs ?? 30_000;
    this.#idleMs = options.idleMs;
    this.#memoryMb = options.memoryMb ?? 512;
  }

  /**
   * Runs a task in a thread.
   * @param owner - owner of the task. The limit of the pool counts tasks per owner
   * @throws WorkerPoolError
   */
  run(task: Task, owner: string): Promise<Result> {
    if (this.#isClosed) return Promise.reject(closed());
    return new Promise((resolve, reject) => {
      const waiting: WaitingTask<Task, Result> = { task, slot: undefined, resolve, reject };
      let isQueued = false;
      try {
        waiting.slot = this.#slots.enter(owner, () => isQueued && this.#begin(waiting));
      } catch (cause) {
        const message = 'too many tasks are waiting for a worker thread';
        reject(new WorkerPoolError('busy', message, { cause }));
        return;
      }
      isQueued = waiting.slot.isWaiting;
      if (isQueued) this.#queue.add(waiting);
      else this.#begin(waiting);
    });
  }

  /** Rejects waiting tasks and ends the threads. May be called more than once. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { reject } of this.#queue) reject(closed());
    this.#queue.clear();
    await Promise.all([...this.#members].map((member) => this.#end(member, closed())));
  }

  /**
   * Assigns a task to an idle thread, or to a new one. The task must have a slot. The number of
   * slots limits the number of threads.
   */
  #begin(waiting: WaitingTask<Task, Result>): void {
    if (this.#isClosed) return;
    this.#queue.delete(waiting);
    this.#assign(this.#idle(), waiting);
  }

  #idle(): PoolThread<Task, Result> {
    for (const member of this.#members) if (member.waiting === undefined) return member;
    return this.#start();
  }

  #start(): PoolThread<Task, Result> {
    const resourceLimits = { maxOldGenerationSizeMb: this.#memoryMb };
    const worker = new Worker(this.#script, { resourceLimits });
    const member: PoolThread<Task, Result> = {
      worker,
      isReady: false,
      waiting: undefined,
      timer: undefined,
    };
    worker.unref();
    worker.on('message', (message: 'ready' | Result) => {
      if (message === 'ready') this.#watchReady(member);
      else this.#release(member)?.resolve(message);
    });
    worker.on('error', (cause: Error) => {
      const error = new WorkerPoolError(
        'crashed',
        'the worker thread of the task ended unexpectedly',
        {
          cause,
        },
      );
      this.#replace(member, error);
    });
    this.#members.add(member);
    return member;
  }

  #assign(member: PoolThread<Task, Result>, waiting: WaitingTask<Task, Result>): void {
    member.waiting = waiting;
    clearTimeout(member.timer);
    member.worker.ref();
    if (member.isReady) this.#watch(member);
    try {
      member.worker.postMessage(waiting.task);
    } catch (cause) {
      this.#release(member);
      const message = 'the task cannot be sent to a worker thread';
      waiting.reject(new WorkerPoolError('not-cloneable', message, { cause }));
    }
  }

  #watchReady(member: PoolThread<Task, Result>): void {
    member.isReady = true;
    if (member.waiting !== undefined) this.#watch(member);
  }

  #watch(member: PoolThread<Task, Result>): void {
    const { waiting } = member;
    member.timer = setTimeout(() => {
      // If the main thread was busy, the result may have arrived. Node.js reads it after timers.
      setImmediate(() => {
        if (member.waiting !== waiting) return;
        const message = `the task took more than ${this.#deadlineMs} milliseconds`;
        this.#replace(member, new WorkerPoolError('deadline', message));
      });
    }, this.#deadlineMs);
  }

  #release(member: PoolThread<Task, Result>): WaitingTask<Task, Result> | undefined {
    const { waiting } = member;
    clearTimeout(member.timer);
    member.waiting = undefined;
    member.worker.unref();
    if (this.#idleMs !== undefined && this.#members.has(member)) {
      member.timer = setTimeout(() => this.#replace(member, closed()), this.#idleMs).unref();
    }
    waiting?.slot?.leave();
    return waiting;
  }

  #replace(member: PoolThread<Task, Result>, error: WorkerPoolError): void {
    // The pool does not wait until the thread has ended.
    this.#end(member, error).catch(() => {});
  }

  async #end(member: PoolThread<Task, Result>, error: WorkerPoolError): Promise<void> {
    this.#members.delete(member);
    this.#release(member)?.reject(error);
    await member.worker.terminate();
  }
}

function closed(): WorkerPoolError {
  return new WorkerPoolError('closed', 'the worker pool is closed');
}
