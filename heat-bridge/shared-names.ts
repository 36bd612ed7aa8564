/** Decisions about names, of which two members of a cluster must not make one each. */

import { createHash } from 'node:crypto';
import type { SharedArea, StateOperation } from '#master';
import { KeyedMutex } from '#runtime';
import { StoreError } from '#store';

/** Rows that stand for all names, so that they need not be forgotten. */
const rowCount = 64;
/** Each of them fails because another member has decided something. */
const maxTries = 100;

/**
 * A member decides by what it knows, and writes what it decided together with a row for the name. Where
 * another member has written that row meanwhile, nothing is written, and it decides again.
 */
export class SharedNames {
  readonly #state: SharedArea;
  readonly #prefix: string;
  readonly #revisions = new Map<string, number>();
  readonly #turns = new KeyedMutex();

  private constructor(state: SharedArea, prefix: string) {
    this.#state = state;
    this.#prefix = prefix;
  }

  static async open(state: SharedArea, prefix: string): Promise<SharedNames> {
    const names = new SharedNames(state, prefix);
    if (state.cluster === undefined) return names;
    await state.follow([prefix], (change) => {
      if (change.type === 'delete') return;
      names.#revisions.set(change.entry.key.at(-1) ?? '', change.entry.revision);
    });
    return names;
  }

  /**
   * @param work - decides, and writes what it decided with the steps given; called again where another
   * member was first, so nothing else may come of it before
   */
  async decide<T>(
    names: readonly string[],
    work: (steps: readonly StateOperation[]) => Promise<T>,
  ): Promise<T> {
    if (this.#state.cluster === undefined) return work([]);
    const rows = [...new Set(names.map(rowOf))].sort();
    const inTurn = rows.reduceRight<() => Promise<T>>(
      (next, row) => () => this.#turns.run(row, next),
      () => this.#decide(rows, work),
    );
    return inTurn();
  }

  async #decide<T>(
    rows: readonly string[],
    work: (steps: readonly StateOperation[]) => Promise<T>,
  ): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      const steps = rows.map((row): StateOperation => {
        const ifRevision = this.#revisions.get(row) ?? 0;
        return { op: 'put', key: [this.#prefix, row], value: new Uint8Array(0), ifRevision };
      });
      try {
        return await work(steps);
      } catch (error) {
        const isSecond = error instanceof StoreError && error.code === 'ERR_REVISION';
        if (!isSecond || tries === maxTries) throw error;
      }
    }
  }
}

function rowOf(name: string): string {
  return String(createHash('sha256').update(name).digest().readUInt16BE(0) % rowCount);
}
