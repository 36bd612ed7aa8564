import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { FairQueue } from '#runtime';
import { MasterError } from '../api/index.ts';
import { authLimits } from './limits.ts';
import type { RsaAnswer, RsaOrder, RsaResult, RsaTask } from './rsa-worker.ts';

interface Waiting {
  readonly id: number;
  readonly task: RsaTask;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface Member {
  readonly worker: Worker;
  /** Tasks of this worker thread that have no result yet. */
  readonly underWay: Map<number, Waiting>;
}

/**
 * Memory limits of a worker thread. A worker thread holds little more than its keys, but by default
 * V8 reserves memory for a whole program.
 */
const resourceLimits = { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 128 };

/**
 * Maximum number of concurrent tasks of a thread. Further tasks wait, or go to a thread with free
 * capacity.
 */
const maxTasksPerThread = 8;
/**
 * A thread with fewer unfinished tasks than this number receives further tasks. With 2, a thread
 * always has a next task when it has ended one, and need not wait for the main thread.
 */
const ahead = 2;
/** Time until the threads end after the last master has closed, in milliseconds. */
const idleMs = 5000;

/**
 * RSA worker threads of this process, at most one for each available processor. All masters of the
 * process share the threads. The threads serve the masters in rotation.
 */
class RsaThreads {
  readonly #members: Member[] = [];
  /**
   * Pools of the open masters, in the order in which the threads serve them. A thread takes a task
   * from the first pool that has waiting tasks. That pool is then moved to the end.
   */
  readonly #pools = new Set<RsaPool>();
  readonly #threads = availableParallelism();
  #lastId = 0;
  #idleTimer: NodeJS.Timeout | undefined;

  open(pool: RsaPool): void {
    this.#pools.add(pool);
    clearTimeout(this.#idleTimer);
  }

  close(pool: RsaPool): void {
    this.#pools.delete(pool);
    if (this.#pools.size > 0) return;
    clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(() => this.#endThreads(), idleMs).unref();
  }

  /** Returns a unique task number. */
  nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  /** Distributes waiting tasks to the threads that have free capacity. */
  dispatch(): void {
    for (;;) {
      const pool = this.#nextPool();
      const member = pool && this.#leastBusy();
      if (pool === undefined || member === undefined) return;
      this.#pools.delete(pool);
      this.#pools.add(pool);
      const share = Math.ceil(pool.waiting / this.#threads);
      this.#give(member, pool.take(Math.min(share, maxTasksPerThread - member.underWay.size)));
    }
  }

  /** Returns the first pool with waiting tasks, or `undefined` if there is none. */
  #nextPool(): RsaPool | undefined {
    for (const pool of this.#pools) if (pool.waiting > 0) return pool;
    return undefined;
  }

  #hire(): Member {
    const worker = new Worker(new URL('./rsa-worker.ts', import.meta.url), { resourceLimits });
    const member: Member = { worker, underWay: new Map() };
    worker.unref();
    worker.on('message', (answers: readonly RsaAnswer[]) => this.#settle(member, answers));
    worker.on('error', (error: Error) => this.#replace(member, error));
    return member;
  }

  /**
   * Sends several tasks to a thread in one message. Waking a thread takes a considerable time
   * compared with an RSA operation.
   */
  #give(member: Member, tasks: readonly Waiting[]): void {
    for (const waiting of tasks) member.underWay.set(waiting.id, waiting);
    try {
      member.worker.postMessage(tasks.map(({ id, task }): RsaOrder => ({ id, task })));
    } catch (cause) {
      // A value in one of the tasks cannot be cloned for another thread, for example a value from a
      // pillar provider.
      for (const { id } of tasks) member.underWay.delete(id);
      if (tasks.length > 1) {
        for (const waiting of tasks) this.#give(member, [waiting]);
        return;
      }
      tasks[0]?.reject(
        new TypeError(
          'a value cannot be sent to a worker thread; use plain data, such as text, numbers, lists and maps',
          { cause },
        ),
      );
    }
  }

  #leastBusy(): Member | undefined {
    let best: Member | undefined;
    for (const member of this.#members) {
      if (member.underWay.size < (best?.underWay.size ?? ahead)) best = member;
    }
    if (best?.underWay.size === 0 || this.#members.length >= this.#threads) return best;
    const fresh = this.#hire();
    this.#members.push(fresh);
    return fresh;
  }

  #settle(member: Member, answers: readonly RsaAnswer[]): void {
    for (const { id, result, error } of answers) {
      const waiting = member.underWay.get(id);
      member.underWay.delete(id);
      if (error !== undefined) waiting?.reject(error);
      else waiting?.resolve(result);
    }
    this.dispatch();
  }

  /** Rejects the tasks of a thread that died. A new thread is started when it is needed. */
  #replace(member: Member, error: Error): void {
    for (const waiting of member.underWay.values()) waiting.reject(error);
    const index = this.#members.indexOf(member);
    if (index !== -1) this.#members.splice(index, 1);
    this.dispatch();
  }

  #endThreads(): void {
    for (const { worker } of this.#members.splice(0)) void worker.terminate();
  }
}

const threads = new RsaThreads();

/**
 * Returns a task that contains copies of tokens. A token of a request is a view of the whole
 * request, which can have 16 MiB. A message to a thread would copy the whole request, and a waiting
 * task would keep it in memory.
 */
function withOwnBytes(task: RsaTask): RsaTask {
  if (task.kind === 'check-token') return { ...task, token: new Uint8Array(task.token) };
  if (task.kind !== 'accept' || task.request.token === undefined) return task;
  return { ...task, request: { ...task.request, token: new Uint8Array(task.request.token) } };
}

/**
 * Performs the RSA operations of a master in worker threads, so that they do not block the main
 * thread. The queue is limited. When it is full, sign-ins are rejected immediately.
 */
export class RsaPool {
  readonly #queue = new FairQueue<Waiting>(authLimits.rsaTasks);
  #isClosed = false;

  constructor() {
    threads.open(this);
  }

  /** Number of tasks that wait for a thread. */
  get waiting(): number {
    return this.#queue.length;
  }

  /**
   * Runs one task on a thread. Tasks of different owners are served alternately.
   * @param owner - minion, or `addressOwner` of a peer that has not proven an id
   * @throws MasterError ERR_RSA_OVERLOAD if the queue is full, ERR_MASTER_STOPPED after close
   */
  run<T extends RsaTask>(task: T, owner: string): Promise<RsaResult<T>> {
    if (this.#isClosed) {
      return Promise.reject(new MasterError('ERR_MASTER_STOPPED', 'the master is closing'));
    }
    return new Promise<RsaResult<T>>((resolve, reject) => {
      // The worker returns the result type that RsaResult defines for this kind of task.
      const settle = resolve as (result: unknown) => void;
      try {
        const waiting = { id: threads.nextId(), task: withOwnBytes(task), resolve: settle, reject };
        this.#queue.push(owner, waiting);
      } catch (cause) {
        const message = `the queue of RSA operations is full (${this.#queue.length}); try again later`;
        reject(new MasterError('ERR_RSA_OVERLOAD', message, { cause }));
        return;
      }
      threads.dispatch();
    });
  }

  /** Removes the first waiting tasks from the queue and returns them. */
  take(count: number): readonly Waiting[] {
    const taken: Waiting[] = [];
    while (taken.length < count) {
      const next = this.#queue.shift();
      if (next === undefined) break;
      taken.push(next);
    }
    return taken;
  }

  /** Rejects waiting tasks. Tasks that are already running may complete. */
  close(): void {
    this.#isClosed = true;
    threads.close(this);
    const error = new MasterError('ERR_MASTER_STOPPED', 'the master is closing');
    for (const waiting of this.take(this.#queue.length)) waiting.reject(error);
  }
}
