/** Rows of the centre as several members of a cluster see them, without a master. */

import type { SharedArea } from '#master';
import { type Change, createMemoryStore, type Key } from '#store';

/** Members over one store. The changes reach all members before a write resolves. */
export class SharedRows {
  readonly #store = createMemoryStore({ now: () => 0 });
  readonly #followers: { readonly prefix: Key; readonly listener: (change: Change) => void }[] = [];
  /** Members that have died. */
  readonly gone: Set<string> = new Set();

  /** Returns the rows as a member sees them. */
  of(member: string): SharedArea {
    const store = this.#store;
    return {
      get: (key) => store.get(key),
      list: (prefix, options) => store.list(prefix, options),
      write: async (operations) => {
        const revision = await store.write(operations);
        for (const operation of operations) await this.#report(operation, revision);
        return revision;
      },
      seal: (plain) => plain,
      unseal: (sealed) => sealed,
      follow: async (prefix, listener) => {
        for await (const entry of store.list(prefix)) listener({ type: 'put', entry });
        this.#followers.push({ prefix, listener });
      },
      cluster: {
        member,
        isHeld: false,
        announce: () => {},
        derive: () => new Uint8Array(32),
        isGone: (other) => this.gone.has(other),
        onHeld: () => {},
        onMessage: () => {},
        send: () => {},
        writeHeld: () => Promise.reject(new Error('this member does not hold the lease')),
      },
    };
  }

  async #report(
    operation: Parameters<SharedArea['write']>[0][number],
    revision: number,
  ): Promise<void> {
    if (operation.op !== 'put' && operation.op !== 'delete') return;
    const { key } = operation;
    const entry = await this.#store.get(key);
    const change: Change =
      entry === undefined ? { type: 'delete', key, revision } : { type: 'put', entry };
    for (const { prefix, listener } of this.#followers) {
      if (prefix.every((segment, place) => key[place] === segment)) listener(change);
    }
  }
}
