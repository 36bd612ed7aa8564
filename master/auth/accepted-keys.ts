/** Keys that a master has taken for accepted. */

import { createHash } from 'node:crypto';
import Type from 'typebox';
import { cleanKeyText } from '#minion-protocol';
import { Bytes, defineRow, type Key, type Operation, type Store, writeInParts } from '#store';

const prefix: Key = ['accepted-keys'];

/** Rows `accepted-keys/<id>`. */
const acceptedRow = defineRow({
  name: 'accepted key',
  schema: Type.Object({ digest: Bytes }),
  unversioned: (digest) => ({ digest }),
  isUnversioned: ({ length }) => length === digestBytes,
});

/** Bytes of a SHA-256. */
const digestBytes = 32;

/** An accepted key. */
interface AcceptedKey {
  readonly id: string;
  readonly pem: string;
}

/**
 * Which keys this master has taken for accepted, in its store: so that a start notices those that
 * were deleted or replaced while it was not running, and ends what they could still do.
 */
export class AcceptedKeys {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Ids that were accepted when the master ran last, and are no longer, or with another key. */
  async lost(accepted: readonly AcceptedKey[]): Promise<string[]> {
    const digests = new Map(accepted.map(({ id, pem }) => [id, digestOf(pem)]));
    const lost: string[] = [];
    for await (const entry of this.#store.list(prefix)) {
      const id = entry.key.at(-1) ?? '';
      if (digests.get(id)?.equals(acceptedRow.decode(entry).digest) !== true) lost.push(id);
    }
    return lost;
  }

  /** Takes these keys for the accepted ones, and no others. Only what differs is written. */
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

  /** Takes the key of an id for accepted; `undefined`: it has none. Durable when it resolves. */
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
  return createHash('sha256').update(cleanKeyText(pem)).digest();
}
