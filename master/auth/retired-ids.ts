import Type from 'typebox';
import { defineRow, type Entry, type Key, type Store } from '#store';
import type { Cluster } from '../context/index.ts';

const prefix: Key = ['former-owners'];

/**
 * Codec of the rows `former-owners/<id>`. A row is written when the last machine with the id is
 * retired. It contains the first job id that no job had used by then.
 */
const formerOwnerRow = defineRow({
  name: 'former owner',
  schema: Type.Object({ jid: Type.String() }),
  unversioned: (bytes) => ({ jid: Buffer.from(bytes).toString() }),
});

/** Retirement of the last machine that had an id. */
interface End {
  /**
   * Lowest jid that no job had used at the time of the retirement. Jobs with lower jids are older
   * than the retirement.
   */
  readonly jid: string;
  readonly expiresAt: number;
}

/**
 * Period for which a record about a retired id is stored, from `now` to `expiresAt`, in
 * milliseconds since 1970.
 */
interface Span {
  readonly now: number;
  readonly expiresAt: number;
}

/**
 * Ids of retired machines. The next machine with the same id cannot access the jobs of the retired
 * machine [THREATS B-14].
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

  /**
   * Whether a job belongs to a former owner of the id: it was published before the id was last
   * retired.
   */
  has(id: string, jid: string): boolean {
    const end = this.#ends.get(id);
    return end !== undefined && jid.length === end.jid.length && jid <= end.jid;
  }

  /**
   * Hides the jobs that were published to an id so far, because another minion may use the id
   * later. Durable when the promise resolves.
   * @param jid - unused job id. Jobs with lower ids are hidden
   * @param span - current time (`now`), and the time at which the record is deleted (`expiresAt`).
   * By then, the last hidden job has expired
   */
  async note(id: string, jid: string, { now, expiresAt }: Span): Promise<void> {
    for (const [known, end] of this.#ends) if (end.expiresAt <= now) this.#ends.delete(known);
    this.#ends.set(id, { jid, expiresAt });
    const value = formerOwnerRow.encode({ jid });
    await this.#store.write([{ op: 'put', key: [...prefix, id], value, expiresAt }]);
  }
}
