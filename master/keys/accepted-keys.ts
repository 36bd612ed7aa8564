import { createHash } from 'node:crypto';
import { cleanKeyText } from '../../minion-protocol/index.ts';
import type { Key, Operation, Store } from '../../store/index.ts';

const prefix: Key = ['accepted-keys'];

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
    for await (const { key, value } of this.#store.list(prefix)) {
      const id = key.at(-1) ?? '';
      if (digests.get(id)?.equals(value) !== true) lost.push(id);
    }
    return lost;
  }

  /** Takes these keys for the accepted ones, and no others. Only what differs is written. */
  async replace(accepted: readonly AcceptedKey[]): Promise<void> {
    const digests = new Map(accepted.map(({ id, pem }) => [id, digestOf(pem)]));
    const operations: Operation[] = [];
    for await (const { key, value } of this.#store.list(prefix)) {
      const id = key.at(-1) ?? '';
      const digest = digests.get(id);
      if (digest === undefined) operations.push({ op: 'delete', key });
      else if (digest.equals(value)) digests.delete(id);
    }
    for (const [id, value] of digests) operations.push({ op: 'put', key: [...prefix, id], value });
    if (operations.length > 0) await this.#store.write(operations);
  }

  /** Takes the key of an id for accepted; `undefined`: it has none. Durable when it resolves. */
  async note(id: string, pem: string | undefined): Promise<void> {
    const key = [...prefix, id];
    await this.#store.write([
      pem === undefined ? { op: 'delete', key } : { op: 'put', key, value: digestOf(pem) },
    ]);
  }
}

function digestOf(pem: string): Buffer {
  return createHash('sha256').update(cleanKeyText(pem)).digest();
}
