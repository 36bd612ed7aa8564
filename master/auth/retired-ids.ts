import Type from 'typebox';
import { defineRow, type Entry, type Key, type Store } from '#store';
import type { Cluster } from '../context/index.ts';

const prefix: Key = ['former-owners'];

/**
 * Row codec for `former-owners/<id>`: the jid that was next when the last owner of the id was
 * retired.
 */
const formerOwnerRow = defineRow({
  name: 'former owner',
  schema: Type.Object({ jid: Type.String() }),
  unversioned: (bytes) => ({ jid: Buffer.from(bytes).toString() }),
});

/** End of an id's last owner. */
interface End {
  /** Jid that was next at that time. */
  readonly jid: string;
  readonly expiresAt: number;
}

/** Times in milliseconds since 1970. */
interface Span {
  readonly now: number;
  readonly expiresAt: number;
}

/**
 * Ids whose previous machine was retired. Jobs published to the previous owner are hidden from the
 * next owner [THREATS B-14].
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

  /** Returns whether a job was published before the last owner of the id was retired. */
  has(id: string, jid: string): boolean {
    const end = this.#ends.get(id);
    return end !== undefined && jid.length === end.jid.length && jid <= end.jid;
  }

  /**
   * Hides all earlier jobs of an id. Durable when it resolves.
   * @param jid unused job id
   * @param span time until which the earlier jobs are stored
   */
  async note(id: string, jid: string, { now, expiresAt }: Span): Promise<void> {
    for (const [known, end] of this.#ends) if (end.expiresAt <= now) this.#ends.delete(known);
    this.#ends.set(id, { jid, expiresAt });
    const value = formerOwnerRow.encode({ jid });
    await this.#store.write([{ op: 'put', key: [...prefix, id], value, expiresAt }]);
  }
}
