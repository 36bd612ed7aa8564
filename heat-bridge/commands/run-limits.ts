/** Limits on concurrent runs of commands. Further runs are queued or rejected. */

import { BridgeError } from '../errors.ts';
import type { CommandDefinition } from './command-definition.ts';

/** Place of a run among the concurrent runs of its command. */
export interface RunSlot {
  /** Resolves when the run may start. */
  readonly entered: Promise<void>;
  /** Whether the run had to wait for its place. */
  readonly isQueued: boolean;
  /** Releases the place. If the run is still waiting, removes it from the queue. */
  leave(): void;
}

/** Counter and limit that apply to a run. */
interface ConcurrencyCount {
  readonly key: string;
  readonly limit: number;
  /** Whether the counter counts runs on one minion, not all runs of the command. */
  readonly isOwn: boolean;
}

interface QueuedRun {
  readonly seats: readonly ConcurrencyCount[];
  readonly enter: () => void;
}

/** Counts active runs by command and by minion, and queues further runs. */
export class RunConcurrency {
  readonly #counts = new Map<string, number>();
  /** Waiting runs by command, in the order of arrival. */
  readonly #queues = new Map<string, QueuedRun[]>();

  /**
   * Takes a place for a run, or queues the run.
   * @throws BridgeError ERR_COMMAND_BUSY if the queue is full
   */
  enter({ name, concurrency = {} }: CommandDefinition, minions: readonly string[]): RunSlot {
    const { perTarget = Infinity, total = Infinity, queue = 0 } = concurrency;
    const seats = [
      { key: name, limit: total, isOwn: false },
      ...minions.map((minion) => ({ key: `${name} ${minion}`, limit: perTarget, isOwn: true })),
    ].filter(({ limit }) => limit !== Infinity);
    const waiting = this.#queues.get(name) ?? [];
    if (this.#isFree(seats, waiting)) {
      this.#take(seats);
      return {
        entered: Promise.resolve(),
        isQueued: false,
        leave: callOnce(() => this.#leave(name, seats)),
      };
    }
    if (waiting.length >= queue) {
      throw new BridgeError('ERR_COMMAND_BUSY', `${name}: too many active runs; retry later`);
    }
    return this.#queue(name, seats);
  }

  #queue(name: string, seats: readonly ConcurrencyCount[]): RunSlot {
    let enter = (): void => {};
    const entered = new Promise<void>((resolve) => {
      enter = resolve;
    });
    const waiting = { seats, enter };
    this.#queues.set(name, [...(this.#queues.get(name) ?? []), waiting]);
    const leave = callOnce(() => {
      if (this.#unqueue(name, waiting)) this.#admit(name);
      else this.#leave(name, seats);
    });
    return { entered, isQueued: true, leave };
  }

  /**
   * Whether the limits permit the run to start, and no run earlier in the queue waits for one of
   * its minions.
   */
  #isFree(seats: readonly ConcurrencyCount[], before: readonly QueuedRun[]): boolean {
    const wanted = new Set(
      before
        .flatMap((it) => it.seats)
        .filter((it) => it.isOwn)
        .map(countKey),
    );
    return seats.every(
      ({ key, limit }) => (this.#counts.get(key) ?? 0) < limit && !wanted.has(key),
    );
  }

  #take(seats: readonly ConcurrencyCount[]): void {
    for (const { key } of seats) this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
  }

  #leave(name: string, seats: readonly ConcurrencyCount[]): void {
    for (const { key } of seats) {
      const left = (this.#counts.get(key) ?? 1) - 1;
      if (left > 0) this.#counts.set(key, left);
      else this.#counts.delete(key);
    }
    this.#admit(name);
  }

  /** Starts the queued runs that can start, in the order of their arrival. */
  #admit(name: string): void {
    const before: QueuedRun[] = [];
    for (const waiting of this.#queues.get(name) ?? []) {
      if (this.#isFree(waiting.seats, before)) {
        this.#unqueue(name, waiting);
        this.#take(waiting.seats);
        waiting.enter();
      } else before.push(waiting);
    }
  }

  /**
   * Removes a run from the queue.
   * @returns whether the run was in the queue
   */
  #unqueue(name: string, waiting: QueuedRun): boolean {
    const all = this.#queues.get(name) ?? [];
    const others = all.filter((it) => it !== waiting);
    if (others.length > 0) this.#queues.set(name, others);
    else this.#queues.delete(name);
    return others.length < all.length;
  }
}

function countKey({ key }: ConcurrencyCount): string {
  return key;
}

function callOnce(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    work();
  };
}
