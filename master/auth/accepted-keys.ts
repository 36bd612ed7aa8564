import { hash } from 'node:crypto';
import Type from 'typebox';
import { cleanKeyText } from '#minion-protocol';
import { Bytes, defineRow, type Key, type Operation, type Store, writeInParts } from '#store';

const prefix: Key = ['accepted-keys'];

/** Codec of the rows `accepted-keys/<id>`. */
const acceptedRow = defineRow({
  name: 'accepted key',
  schema: Type.Object({ digest: Bytes }),
  unversioned: (digest) => ({ digest }),
  isUnversioned: ({ length }) => length === digestBytes,
});

/** Length of a SHA-256 digest, in bytes. */
const digestBytes = 32;

/** An accepted key of a minion. */
interface AcceptedKey {
  readonly id: string;
  readonly pem: string;
}

/**
 * Record of the accepted keys in the store. When the master starts, it compares the keys with this
 * record. It revokes keys that were deleted or replaced while the master was not running.
 */
export class AcceptedKeys {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /**
   * Returns the ids that had an accepted key during the last run of the master, if this key is now
   * missing or different.
   */
  async lost(accepted: readonly AcceptedKey[]): Promise<string[]> {
    const digests = new Map(accepted.map(({ id, pem }) => [id, digestOf(pem)]));
    const lost: string[] = [];
    for await (const entry of this.#store.list(prefix)) {
      const id = entry.key.at(-1) ?? '';
      if (digests.get(id)?.equals(acceptedRow.decode(entry).digest) !== true) lost.push(id);
    }
    return lost;
  }

  /** Makes the record contain exactly these keys. Only differences are written to the store. */
  async replace(accepted: readonly AcceptedKey[]): Promise<void> {
    const digests = new Map(accepted.map(({ id, pem }) => [id, digestOf(pem)]));
    const operations: Operation[] = [];
    for await (const entry of this.#store.list(prefix)) {
      const { key } = entry;
      const id = key.at(-1) ?? '';
      const digest = digests.get(id);
      if (digest === undefined) operations.push({ op: 'delete', key });
      else if (digest.equals(acceptedRow.decode(entry).digest)) digests.delete(id);
    }
    for (const [id, digest] of digests) {
      operations.push({ op: 'put', key: [...prefix, id], value: acceptedRow.encode({ digest }) });
    }
    await writeInParts(this.#store, operations);
  }

  /**
   * Records the accepted key of an id. `undefined` removes the key from the record. Durable when
   * the promise resolves.
   */
  async note(id: string, pem: string | undefined): Promise<void> {
    const key = [...prefix, id];
    await this.#store.write([
      pem === undefined
        ? { op: 'delete', key }
        : { op: 'put', key, value: acceptedRow.encode({ digest: digestOf(pem) }) },
    ]);
  }
}

function digestOf(pem: string): Buffer {
  return hash('sha256', cleanKeyText(pem), 'buffer');
}
