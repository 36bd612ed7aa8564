/** Ids whose machine is gone. */

import Type from 'typebox';
import { defineRow, type Entry, type Key, type Store } from '#store';
import type { Cluster } from '../context/index.ts';

const prefix: Key = ['former-owners'];

/** Rows `former-owners/<id>`: the job id that was next when the last owner of the id went. */
const formerOwnerRow = defineRow({
  name: 'former owner',
  schema: Type.Object({ jid: Type.String() }),
  unversioned: (bytes) => ({ jid: Buffer.from(bytes).toString() }),
});

/** Of an id's last owner. */
interface End {
  /** The one that was next when it went. */
  readonly jid: string;
  readonly expiresAt: number;
}

/** Milliseconds since 1970. */
interface Span {
  readonly now: number;
  readonly expiresAt: number;
}

/**
 * Ids that a machine had which is gone: what was published to it is none of the next owner's
 * business [THREATS B-14].
 */
export class RetiredIds {
  readonly #store: Store;
  readonly #ends: Map<string, End>;

  private constructor(store: Store, ends: Map<string, End>) {
    this.#store = store;
    this.#ends = ends;
  }

  static async open(store: Store, cluster?: Pick<Cluster, 'follow'>): Promise<RetiredIds> {
    const ends = new Map<string, End>();
    const note = (entry: Entry): void => {
      const { key, expiresAt = 0 } = entry;
      ends.set(key.at(-1) ?? '', { jid: formerOwnerRow.decode(entry).jid, expiresAt });
    };
    cluster?.follow(prefix, (change) => {
      if (change.type === 'put') note(change.entry);
    });
    for await (const entry of store.list(prefix)) note(entry);
    return new RetiredIds(store, ends);
  }

  /** Whether a job was published before the last owner of the id went. */
  has(id: string, jid: string): boolean {
    const end = this.#ends.get(id);
    return end !== undefined && jid.length === end.jid.length && jid <= end.jid;
  }

  /**
   * Ends the jobs of an id; durable when it resolves.
   * @param jid one that no job has
   * @param span until when the jobs before it are kept
   */
  async note(id: string, jid: string, { now, expiresAt }: Span): Promise<void> {
    for (const [known, end] of this.#ends) if (end.expiresAt <= now) this.#ends.delete(known);
    this.#ends.set(id, { jid, expiresAt });
    const value = formerOwnerRow.encode({ jid });
    await this.#store.write([{ op: 'put', key: [...prefix, id], value, expiresAt }]);
  }
}
