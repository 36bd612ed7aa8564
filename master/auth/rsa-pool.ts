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

/** How the pool is made. */
export interface RsaPoolOptions {
  /** Threads at most; each is started when the others are busy. Default: one a processor. */
  readonly threads?: number;
  /** Tasks that may wait; one more is refused. Default 4096. */
  readonly maxWaiting?: number;
}

/** A worker holds little more than keys; without these V8 reserves as for a whole program. */
const resourceLimits = { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 128 };

/** A thread has no more tasks than this at a time; what waits longer goes to whoever is free. */
const maxTasksPerThread = 8;
/** With fewer than this left a thread is given more, so that it never waits for the main thread. */
const ahead = 2;

/**
 * Worker threads for RSA, so that no private-key operation ever holds the thread that moves
 * bytes. Bounded: a flood of sign-ins is refused at the door instead of queueing up.
 */
export class RsaPool {
  readonly #members: Member[] = [];
  readonly #queue: Waiting[] = [];
  readonly #maxWaiting: number;
  readonly #threads: number;
  #lastId = 0;
  #isClosed = false;

  constructor(options: RsaPoolOptions = {}) {
    this.#maxWaiting = options.maxWaiting ?? 4096;
    this.#threads = options.threads ?? availableParallelism();
  }

  /** Tasks that wait for a worker. */
  get waiting(): number {
    return this.#queue.length;
  }

  /**
   * Runs one task on a worker.
   * @throws MasterError ERR_RSA_OVERLOAD when too many wait, ERR_MASTER_STOPPED after close
   */
  run<T extends RsaTask>(task: T): Promise<RsaResult<T>> {
    if (this.#isClosed) {
      return Promise.reject(new MasterError('ERR_MASTER_STOPPED', 'the master is being closed'));
    }
    if (this.#queue.length >= this.#maxWaiting) {
      const message = `${this.#queue.length} RSA operations are waiting; this one was refused`;
      return Promise.reject(new MasterError('ERR_RSA_OVERLOAD', message));
    }
    return new Promise<RsaResult<T>>((resolve, reject) => {
      this.#lastId += 1;
      // The worker answers a task with the result that RsaResult names for its kind.
      const settle = resolve as (result: unknown) => void;
      this.#queue.push({ id: this.#lastId, task, resolve: settle, reject });
      this.#dispatch();
    });
  }

  /** Refuses what waits and ends the threads. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const error = new MasterError('ERR_MASTER_STOPPED', 'the master is being closed');
    for (const waiting of this.#queue.splice(0)) waiting.reject(error);
    await Promise.all(this.#members.splice(0).map(({ worker }) => worker.terminate()));
  }

  #hire(): Member {
    const worker = new Worker(new URL('./rsa-worker.js', import.meta.url), { resourceLimits });
    const member: Member = { worker, underWay: new Map() };
    worker.unref();
    worker.on('message', (answers: readonly RsaAnswer[]) => this.#settle(member, answers));
    worker.on('error', (error: Error) => this.#replace(member, error));
    return member;
  }

  #dispatch(): void {
    while (this.#queue.length > 0) {
      const member = this.#leastBusy();
      if (member === undefined) return;
      const share = Math.ceil(this.#queue.length / this.#threads);
      this.#give(
        member,
        this.#queue.splice(0, Math.min(share, maxTasksPerThread - member.underWay.size)),
      );
    }
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
    this.#dispatch();
  }

  /** A worker that died takes its tasks with it; another takes its place. */
  #replace(member: Member, error: Error): void {
    for (const waiting of member.underWay.values()) waiting.reject(error);
    const index = this.#members.indexOf(member);
    if (index === -1 || this.#isClosed) return;
    this.#members[index] = this.#hire();
    this.#dispatch();
  }
}
