import type { Key, Store } from '../../store/index.ts';

const prefix: Key = ['former-owners'];

/**
 * Ids that a machine had which is gone: what was published to it is none of the next owner's
 * business [THREATS B-14].
 */
export class FormerOwners {
  readonly #store: Store;
  /** Id → the jid that was next when its owner went. */
  readonly #ends: Map<string, string>;

  private constructor(store: Store, ends: Map<string, string>) {
    this.#store = store;
    this.#ends = ends;
  }

  static async open(store: Store): Promise<FormerOwners> {
    const ends = new Map<string, string>();
    for await (const { key, value } of store.list(prefix)) {
      ends.set(key.at(-1) ?? '', Buffer.from(value).toString());
    }
    return new FormerOwners(store, ends);
  }

  /** Whether a job was published before the last owner of the id went. */
  had(id: string, jid: string): boolean {
    const end = this.#ends.get(id);
    return end !== undefined && jid.length === end.length && jid <= end;
  }

  /**
   * Ends the jobs of an id; durable when it resolves.
   * @param jid one that no job has
   * @param expiresAt when the jobs before it are no longer kept, milliseconds since 1970
   */
  async note(id: string, jid: string, expiresAt: number): Promise<void> {
    this.#ends.set(id, jid);
    await this.#store.write([
      { op: 'put', key: [...prefix, id], value: Buffer.from(jid), expiresAt },
    ]);
  }
}
