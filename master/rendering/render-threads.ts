import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { MasterError } from '../errors.ts';
import type { Answer, Order } from './messages.ts';

/** How the threads are made. */
export interface RenderThreadsOptions {
  /** At most; each is started when the others are busy. Default: one less than processors, up to 2. */
  readonly threads?: number;
  /** Orders that may wait; one more is refused. Default 4096. */
  readonly maxWaiting?: number;
  /** When a thread that has not answered is ended, milliseconds. Default 30,000. */
  readonly deadlineMs?: number;
  /** What one may hold, MiB; beyond that a thread ends, where the process would. Default 512. */
  readonly memoryMb?: number;
}

interface Waiting {
  readonly order: Order;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

interface Member {
  readonly worker: Worker;
  /** It takes messages, so that its deadlines count. */
  isReady: boolean;
  waiting: Waiting | undefined;
  deadline: NodeJS.Timeout | undefined;
}

/** Threads that render what would hold the main thread. Each does one order at a time. */
export class RenderThreads {
  readonly #members = new Set<Member>();
  readonly #queue: Waiting[] = [];
  readonly #threads: number;
  readonly #maxWaiting: number;
  readonly #deadlineMs: number;
  readonly #memoryMb: number;
  #isClosed = false;

  constructor(options: RenderThreadsOptions = {}) {
    this.#threads = options.threads ?? Math.max(1, Math.min(2, availableParallelism() - 1));
    this.#maxWaiting = options.maxWaiting ?? 4096;
    this.#deadlineMs = options.deadlineMs ?? 30_000;
    this.#memoryMb = options.memoryMb ?? 512;
  }

  /**
   * Has a thread do an order.
   * @throws MasterError ERR_RENDER_GIVEN_UP when too many wait, or the thread takes too much time
   * or memory; ERR_MASTER_STOPPED after close
   */
  run(order: Order): Promise<Answer> {
    if (this.#isClosed) return Promise.reject(stopped());
    if (this.#queue.length >= this.#maxWaiting) {
      return Promise.reject(givenUp(`${this.#queue.length} renderings are waiting already`));
    }
    return new Promise((resolve, reject) => {
      this.#queue.push({ order, resolve, reject });
      this.#dispatch();
    });
  }

  /** Refuses what waits, and ends the threads. May be called twice. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { reject } of this.#queue.splice(0)) reject(stopped());
    await Promise.all([...this.#members].map((member) => this.#end(member, stopped())));
  }

  #dispatch(): void {
    while (!this.#isClosed) {
      const [next] = this.#queue;
      const member = next && this.#idle();
      if (next === undefined || member === undefined) return;
      this.#queue.shift();
      this.#give(member, next);
    }
  }

  #idle(): Member | undefined {
    for (const member of this.#members) if (member.waiting === undefined) return member;
    return this.#members.size < this.#threads ? this.#hire() : undefined;
  }

  #hire(): Member {
    const resourceLimits = { maxOldGenerationSizeMb: this.#memoryMb };
    const worker = new Worker(new URL('./render-worker.js', import.meta.url), { resourceLimits });
    const member: Member = { worker, isReady: false, waiting: undefined, deadline: undefined };
    worker.unref();
    worker.on('message', (message: 'ready' | Answer) => {
      if (message === 'ready') this.#begin(member);
      else this.#release(member)?.resolve(message);
      this.#dispatch();
    });
    worker.on('error', (cause: Error) => {
      this.#replace(member, givenUp('a rendering takes more memory than it may', { cause }));
    });
    this.#members.add(member);
    return member;
  }

  #give(member: Member, waiting: Waiting): void {
    member.waiting = waiting;
    if (member.isReady) this.#watch(member);
    try {
      member.worker.postMessage(waiting.order);
    } catch (cause) {
      this.#release(member);
      waiting.reject(new TypeError('a rendering that no thread can be given', { cause }));
    }
  }

  /** The time that a thread needs to start is not the rendering's. */
  #begin(member: Member): void {
    member.isReady = true;
    if (member.waiting !== undefined) this.#watch(member);
  }

  #watch(member: Member): void {
    member.deadline = setTimeout(() => {
      const problem = `a rendering takes more than ${this.#deadlineMs} milliseconds`;
      this.#replace(member, givenUp(problem));
    }, this.#deadlineMs);
  }

  #release(member: Member): Waiting | undefined {
    const { waiting } = member;
    clearTimeout(member.deadline);
    member.waiting = undefined;
    return waiting;
  }

  /** Its order is given up; another thread takes its place when there is more to do. */
  #replace(member: Member, error: MasterError): void {
    // Nobody waits for a thread to end.
    this.#end(member, error).catch(() => {});
    this.#dispatch();
  }

  async #end(member: Member, error: MasterError): Promise<void> {
    this.#members.delete(member);
    this.#release(member)?.reject(error);
    await member.worker.terminate();
  }
}

function givenUp(problem: string, options?: ErrorOptions): MasterError {
  return new MasterError('ERR_RENDER_GIVEN_UP', problem, options);
}

function stopped(): MasterError {
  return new MasterError('ERR_MASTER_STOPPED', 'the master is being closed');
}
