/** Concurrency limits of commands: the numbers of active and of waiting runs. */

import { BridgeError } from '../errors.ts';
import type { CommandDefinition } from './command-definition.ts';

/** Place of a run among concurrent runs. */
export interface RunSlot {
  /** Resolves when the run may start. */
  readonly entered: Promise<void>;
  /** Whether it had to wait. */
  readonly isQueued: boolean;
  /** Releases the place, or stops waiting. */
  leave(): void;
}

/** Counter to which a run contributes. */
interface ConcurrencyCount {
  readonly key: string;
  readonly limit: number;
  /** Whether it counts runs on one minion. */
  readonly isOwn: boolean;
}

interface QueuedRun {
  readonly seats: readonly ConcurrencyCount[];
  readonly enter: () => void;
}

/** Counts runs by command and minion. */
export class RunConcurrency {
  readonly #counts = new Map<string, number>();
  /** Waiting runs by command, in the order of arrival. */
  readonly #queues = new Map<string, QueuedRun[]>();

  /**
   * Takes a place for a run, or queues it.
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

  /** Whether there is capacity for the run, and no earlier run waits for the same minion. */
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

  /** Starts the waiting runs that can start, in order. */
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
   * @returns whether it was waiting
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
