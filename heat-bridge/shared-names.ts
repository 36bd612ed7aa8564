/** Prevents two members of a cluster from using the same name at the same time. */

import { hash } from 'node:crypto';
import type { SharedArea, StateOperation } from '#master';
import { KeyedMutex } from '#runtime';
import { retryConflicts } from '#store';

/**
 * Number of rows in the store. The hash of a name selects its row, and several names share a row.
 * The number of rows therefore stays constant, and none has to be removed.
 */
const rowCount = 64;
/**
 * Maximum number of attempts to write a decision about a name. An attempt fails if another member
 * first writes a decision about the same name.
 */
const maxTries = 100;

/**
 * Makes decisions about names, for example whether a name is free, one after the other in the whole
 * cluster. A member decides with its current data, and writes the result together with a row for
 * the name. If another member has written this row in the meantime, nothing is written and the
 * decision is repeated.
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
   * Calls `work` to decide about names, for example whether a name is free. Members of the cluster
   * decide about one name one after the other.
   * @param work - makes the decision, and writes it in one transaction with the operations in
   * `steps`. If another member has decided meanwhile, this write fails, and `work` is called again.
   * `work` must have no effects before the write
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

  #decide<T>(
    rows: readonly string[],
    work: (steps: readonly StateOperation[]) => Promise<T>,
  ): Promise<T> {
    return retryConflicts(() => {
      const steps = rows.map((row): StateOperation => {
        const ifRevision = this.#revisions.get(row) ?? 0;
        return { op: 'put', key: [this.#prefix, row], value: new Uint8Array(0), ifRevision };
      });
      return work(steps);
    }, maxTries);
  }
}

function rowOf(name: string): string {
  return String(hash('sha256', name, 'buffer').readUInt16BE(0) % rowCount);
}
