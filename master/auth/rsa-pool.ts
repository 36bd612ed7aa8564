import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { MasterError } from '../api/index.ts';
import type { RsaAnswer, RsaOrder, RsaResult, RsaTask } from './rsa-worker.ts';

interface Waiting {
  readonly id: number;
  readonly task: RsaTask;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface Member {
  readonly worker: Worker;
  /** Tasks sent to this worker and not yet answered. */
  readonly underWay: Map<number, Waiting>;
}

/** A worker holds little more than keys; without these V8 reserves as for a whole program. */
const resourceLimits = { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 128 };

/** A thread has no more tasks than this at a time; what waits longer goes to whoever is free. */
const maxTasksPerThread = 8;
/** With fewer than this left a thread is given more, so that it never waits for the main thread. */
const ahead = 2;
/** Tasks of one master that may wait. */
const maxWaiting = 4096;
/** Threads that no master needs end so many milliseconds after the last one was closed. */
const idleMs = 5000;

/** The threads of this process, of which each master has its turn: there are only so many processors. */
class RsaThreads {
  readonly #members: Member[] = [];
  /** Of open masters; the first has the next turn. */
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

  /** A number that no other task has. */
  nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  /** Gives waiting tasks to threads that are free. */
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

  /** The one whose turn it is, of those with tasks that wait. */
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

  /** One message for many tasks: waking a thread costs a good part of an RSA operation. */
  #give(member: Member, tasks: readonly Waiting[]): void {
    for (const waiting of tasks) member.underWay.set(waiting.id, waiting);
    try {
      member.worker.postMessage(tasks.map(({ id, task }): RsaOrder => ({ id, task })));
    } catch (cause) {
      // A value that cannot be copied to another thread, from a pillar provider for instance.
      for (const { id } of tasks) member.underWay.delete(id);
      if (tasks.length > 1) {
        for (const waiting of tasks) this.#give(member, [waiting]);
        return;
      }
      tasks[0]?.reject(new TypeError('a task that no worker can be given', { cause }));
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

  /** A worker that died takes its tasks with it; another takes its place when it is needed. */
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
 * The RSA operations of a master, on worker threads, so that no private-key operation ever holds the
 * thread that moves bytes. Bounded: a flood of sign-ins is refused at the door instead of queueing up.
 */
export class RsaPool {
  readonly #queue: Waiting[] = [];
  #isClosed = false;

  constructor() {
    threads.open(this);
  }

  /** Tasks that wait for a thread. */
  get waiting(): number {
    return this.#queue.length;
  }

  /**
   * Runs one task on a thread.
   * @throws MasterError ERR_RSA_OVERLOAD when too many wait, ERR_MASTER_STOPPED after close
   */
  run<T extends RsaTask>(task: T): Promise<RsaResult<T>> {
    if (this.#isClosed) {
      return Promise.reject(new MasterError('ERR_MASTER_STOPPED', 'the master is being closed'));
    }
    if (this.#queue.length >= maxWaiting) {
      const message = `${this.#queue.length} RSA operations are waiting; this one was refused`;
      return Promise.reject(new MasterError('ERR_RSA_OVERLOAD', message));
    }
    return new Promise<RsaResult<T>>((resolve, reject) => {
      // The worker answers a task with the result that RsaResult names for its kind.
      const settle = resolve as (result: unknown) => void;
      this.#queue.push({ id: threads.nextId(), task, resolve: settle, reject });
      threads.dispatch();
    });
  }

  /** Takes the first tasks that wait. */
  take(count: number): readonly Waiting[] {
    return this.#queue.splice(0, count);
  }

  /** Refuses what waits; what a thread is at may end. */
  close(): void {
    this.#isClosed = true;
    threads.close(this);
    const error = new MasterError('ERR_MASTER_STOPPED', 'the master is being closed');
    for (const waiting of this.#queue.splice(0)) waiting.reject(error);
  }
}
