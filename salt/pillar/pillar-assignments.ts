import type { LRUCache } from 'lru-cache';
import { createBoundedMap } from '#runtime';
import { saltLimits } from '../limits.ts';
import { OwnedCache } from '../owned-cache.ts';
import type { Assignment } from './compile-pillar.ts';

/** The SLS that the top files assign to minions. Minions with equal inputs share one object. */
export interface SharedAssignment {
  readonly assignment: Assignment;
  /** The SLS that would be assigned if the master did not know the grains of the minion. */
  readonly proven: Assignment;
}

/**
 * Assignments of pillar SLS, by name and by minion. The table limits the bytes of assignments, for
 * each minion that made them and in total. For each minion, it remembers only the name of its
 * assignment. Therefore no minion keeps an evicted assignment in memory.
 */
export class PillarAssignments<Value extends SharedAssignment> {
  readonly #nameOf: LRUCache<string, string>;
  readonly #byName: OwnedCache<Value>;

  constructor() {
    this.#nameOf = createBoundedMap<string, string>(saltLimits.pillarAssignments);
    this.#byName = new OwnedCache<Value>(saltLimits.pillarAssignmentBytes, {
      sizeOf: ({ assignment, proven }) => sizeOfAssignments([assignment, proven]),
    });
  }

  /** Returns the assignment of a minion, unless it was evicted. */
  of(id: string): Value | undefined {
    return this.named(this.#nameOf.get(id) ?? '');
  }

  /** Returns the assignment with a name, unless it was evicted. */
  named(name: string): Value | undefined {
    return this.#byName.get(name);
  }

  /**
   * Adds or replaces an assignment. It counts towards the limit of the minion that made it.
   * @returns `false` if the assignment exceeds the limit of bytes, and was not added
   */
  add(id: string, name: string, value: Value): boolean {
    return this.#byName.set(id, name, value);
  }

  /** Records the name of a minion's assignment. */
  assign(id: string, name: string): void {
    this.#nameOf.set(id, name);
  }

  /** Deletes the name of a minion's assignment. */
  forget(id: string): void {
    this.#nameOf.delete(id);
  }
}

/**
 * Estimated memory for the name of one SLS in an assignment, in addition to its characters, in
 * bytes.
 */
const bytesPerName = 100;
/**
 * Estimated memory of a minion's assignments, in bytes. The memory of the assigned SLS is added.
 */
const bytesPerPlaced = 1000;

/**
 * Returns the estimated memory of a minion's assignments, in bytes. An assignment contains the SLS
 * that the top files assign to the minion. An object that occurs twice counts once.
 */
export function sizeOfAssignments(assignments: readonly Assignment[]): number {
  let size = bytesPerPlaced;
  for (const { matches, mayBeMissing, errors } of new Set(assignments)) {
    for (const names of [...matches.values(), mayBeMissing, errors]) {
      for (const { length } of names) size += bytesPerName + length;
    }
  }
  return size;
}
