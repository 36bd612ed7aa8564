import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';

/**
 * How a pool makes and bounds its threads. A worker script posts `'ready'` once it takes messages,
 * then exactly one message for each message that it receives.
 */
export interface WorkerPoolOptions {
  /** The compiled worker script. */
  readonly script: URL;
  /** Most threads; each starts when the others are busy. Default: one less than processors, 1 to 2. */
  readonly threads?: number;
  /** Tasks that may wait; one more is refused. Default 4096. */
  readonly maxWaiting?: number;
  /** Time for one task, milliseconds; its thread is ended after that. Default 30,000. */
  readonly deadlineMs?: number;
  /** Idle time after which a thread ends, milliseconds. Default: it stays until {@link WorkerPool.close}. */
  readonly idleMs?: number;
  /** Most heap of one thread, MiB; beyond that the thread ends instead of the process. Default 512. */
  readonly memoryMb?: number;
}

/** Why a pool did not do a task. */
export class WorkerPoolError extends Error {
  override readonly name = 'WorkerPoolError';
  /**
   * `busy`: too many tasks wait; `deadline`: the task took too long; `crashed`: its thread ended,
   * mostly for want of memory; `closed`: the pool was closed; `not-cloneable`: the task cannot be
   * sent to a thread.
   */
  readonly reason: 'busy' | 'deadline' | 'crashed' | 'closed' | 'not-cloneable';

  constructor(reason: WorkerPoolError['reason'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

interface WaitingTask<Task, Result> {
  readonly task: Task;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: WorkerPoolError) => void;
}

interface PoolThread<Task, Result> {
  readonly worker: Worker;
  /** It takes messages, so its deadline counts: starting a thread is not the task's time. */
  isReady: boolean;
  waiting: WaitingTask<Task, Result> | undefined;
  /** The deadline of its task, or the end of its idle time. */
  timer: NodeJS.Timeout | undefined;
}

/** Threads for work that would hold the main thread; each does one task at a time. */
export class WorkerPool<Task, Result> {
  readonly #members = new Set<PoolThread<Task, Result>>();
  readonly #queue: WaitingTask<Task, Result>[] = [];
  readonly #script: URL;
  readonly #threads: number;
  readonly #maxWaiting: number;
  readonly #deadlineMs: number;
  readonly #idleMs: number | undefined;
  readonly #memoryMb: number;
  #isClosed = false;

  constructor(options: WorkerPoolOptions) {
    this.#script = options.script;
    this.#threads = options.threads ?? Math.max(1, Math.min(2, availableParallelism() - 1));
    this.#maxWaiting = options.maxWaiting ?? 4096;
    this.#deadlineMs = options.deadlineMs ?? 30_000;
    this.#idleMs = options.idleMs;
    this.#memoryMb = options.memoryMb ?? 512;
  }

  /** Has a thread do a task. @throws WorkerPoolError */
  run(task: Task): Promise<Result> {
    if (this.#isClosed) return Promise.reject(closed());
    if (this.#queue.length >= this.#maxWaiting) {
      const message = `${this.#queue.length} tasks are waiting already`;
      return Promise.reject(new WorkerPoolError('busy', message));
    }
    return new Promise((resolve, reject) => {
      this.#queue.push({ task, resolve, reject });
      this.#dispatch();
    });
  }

  /** Rejects what waits, and ends the threads. May be called twice. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { reject } of this.#queue.splice(0)) reject(closed());
    await Promise.all([...this.#members].map((member) => this.#end(member, closed())));
  }

  #dispatch(): void {
    while (!this.#isClosed) {
      const [next] = this.#queue;
      const member = next && this.#idle();
      if (next === undefined || member === undefined) return;
      this.#queue.shift();
      this.#assign(member, next);
    }
  }

  #idle(): PoolThread<Task, Result> | undefined {
    for (const member of this.#members) if (member.waiting === undefined) return member;
    return this.#members.size < this.#threads ? this.#start() : undefined;
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
      if (message === 'ready') this.#begin(member);
      else this.#release(member)?.resolve(message);
      this.#dispatch();
    });
    worker.on('error', (cause: Error) => {
      const error = new WorkerPoolError('crashed', 'the thread of the task ended', { cause });
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
      const message = 'the task cannot be sent to a thread';
      waiting.reject(new WorkerPoolError('not-cloneable', message, { cause }));
    }
  }

  #begin(member: PoolThread<Task, Result>): void {
    member.isReady = true;
    if (member.waiting !== undefined) this.#watch(member);
  }

  #watch(member: PoolThread<Task, Result>): void {
    member.timer = setTimeout(() => {
      const message = `the task takes more than ${this.#deadlineMs} milliseconds`;
      this.#replace(member, new WorkerPoolError('deadline', message));
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
    return waiting;
  }

  #replace(member: PoolThread<Task, Result>, error: WorkerPoolError): void {
    // Nobody waits for a thread to end.
    this.#end(member, error).catch(() => {});
    this.#dispatch();
  }

  async #end(member: PoolThread<Task, Result>, error: WorkerPoolError): Promise<void> {
    this.#members.delete(member);
    this.#release(member)?.reject(error);
    await member.worker.terminate();
  }
}

function closed(): WorkerPoolError {
  return new WorkerPoolError('closed', 'the pool is closed');
}
