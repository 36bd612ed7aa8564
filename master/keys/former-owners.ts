import type { Key, Store } from '../../store/index.ts';

const prefix: Key = ['former-owners'];

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
export class FormerOwners {
  readonly #store: Store;
  readonly #ends: Map<string, End>;

  private constructor(store: Store, ends: Map<string, End>) {
    this.#store = store;
    this.#ends = ends;
  }

  static async open(store: Store): Promise<FormerOwners> {
    const ends = new Map<string, End>();
    for await (const { key, value, expiresAt = 0 } of store.list(prefix)) {
      ends.set(key.at(-1) ?? '', { jid: Buffer.from(value).toString(), expiresAt });
    }
    return new FormerOwners(store, ends);
  }

  /** Whether a job was published before the last owner of the id went. */
  had(id: string, jid: string): boolean {
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
    await this.#store.write([
      { op: 'put', key: [...prefix, id], value: Buffer.from(jid), expiresAt },
    ]);
  }
}
