/** The key that all minions share for publications. */

import Type from 'typebox';
import {
  type CrypticleKey,
  generateKeyString,
  parseKeyString,
  unpackLocal,
} from '#minion-protocol';
import { Mutex } from '#runtime';
import { Bytes, defineRow, type Entry, isConflict, type Key, type Store } from '#store';
import type { Cluster } from '../context/index.ts';
import { type Seal, secretsPrefix } from './seal.ts';

const record: Key = [...secretsPrefix, 'publish-key'];

/** Codec of the row with the publish key. The row is encrypted. */
const publishKeyRow = defineRow({
  name: 'publish key',
  schema: Type.Object({
    key: Type.String(),
    signature: Bytes,
    /** Time of creation, in milliseconds since 1970. */
    madeAt: Type.Number(),
    reservedUpTo: Type.Number(),
    isRetired: Type.Optional(Type.Boolean()),
  }),
  unversioned: unpackLocal,
});

/** Current publish key with its signature. */
export interface CurrentPublishKey {
  readonly key: CrypticleKey;
  /**
   * X9.31 signature of the key's digest, made with the master's private key. Every successful
   * sign-in returns it [WIRE 3.3].
   */
  readonly signature: Uint8Array;
  /** Time of creation, in milliseconds since 1970. */
  readonly madeAt: number;
}

export interface PublishKeyOptions {
  readonly store: Store;
  readonly seal: Seal;
  /** Signs the digest of a new key with the master's private key, off the main thread. */
  readonly sign: (keyString: string) => Promise<Uint8Array>;
  /** Number of serials that are reserved on disk at a time (`saltbridge: publish_serial_block`). */
  readonly serialBlock: number;
  readonly now: () => number;
  /** Cluster of this master. Its members share the key. `undefined` outside a cluster. */
  readonly cluster?: Pick<Cluster, 'follow'> | undefined;
}

/**
 * AES key that all minions share for publications, with the serial numbers of publications [WIRE
 * 3.4, 7.1]. A block of serials is marked as used on disk before its first serial is assigned. So a
 * serial is never assigned twice with the same key, even after a restart, and minions need not sign
 * in again.
 *
 * Members of a cluster share the key and the range of used serials. Each member assigns its own
 * serials to its minions. These serials are higher than all serials of other members that it has
 * observed ({@link observe}). So a minion receives increasing serials when it changes to another
 * member.
 */
export class PublishKey {
  readonly #options: PublishKeyOptions;
  #current: CurrentPublishKey;
  #isRetired = false;
  #nextSerial: number;
  #reservedUpTo: number;
  /**
   * Serialises writes of the store row with the publish key, so that an old key never overwrites a
   * new one.
   */
  readonly #turn = new Mutex();
  /** Revision of the store row with the publish key. 0 if the row does not exist yet. */
  #revision = 0;

  private constructor(options: PublishKeyOptions, current: CurrentPublishKey, serial: number) {
    this.#options = options;
    this.#current = current;
    this.#nextSerial = serial + 1;
    this.#reservedUpTo = serial;
    options.cluster?.follow(record, (change) => {
      if (change.type === 'put') this.#takeOver(change.entry);
    });
  }

  /** Opens the stored key. If there is none, creates the first key. */
  static async open(options: PublishKeyOptions): Promise<PublishKey> {
    const entry = await options.store.get(record);
    if (entry === undefined) return PublishKey.#make(options);
    const saved = parseRecord(options.seal.open(entry.value));
    if (saved.isRetired) return PublishKey.#make(options);
    const opened = new PublishKey(options, saved.current, saved.reservedUpTo);
    opened.#revision = entry.revision;
    return opened;
  }

  static async #make(options: PublishKeyOptions): Promise<PublishKey> {
    const entry = options.cluster && (await options.store.get(record));
    const fresh = new PublishKey(options, await makeKey(options), 0);
    fresh.#revision = entry?.revision ?? 0;
    try {
      await fresh.#persist(options.serialBlock);
    } catch (error) {
      // Another member has created the key in the meantime. This member receives it from the log.
      if (!isConflict(error)) throw error;
    }
    return fresh;
  }

  /** Raises the next serial of this master above a serial that another member has assigned. */
  observe(serial: number): void {
    this.#nextSerial = Math.max(this.#nextSerial, serial + 1);
  }

  #takeOver({ value, revision }: Pick<Entry, 'value' | 'revision'>): void {
    const saved = parseRecord(this.#options.seal.open(value));
    this.#revision = revision;
    this.#isRetired = saved.isRetired;
    if (saved.current.key.text === this.#current.key.text) {
      this.#reservedUpTo = Math.max(this.#reservedUpTo, saved.reservedUpTo);
      return;
    }
    this.#current = saved.current;
    this.#nextSerial = 1;
    this.#reservedUpTo = saved.reservedUpTo;
  }

  /** Current key. It encrypts publications, and requests and replies of protocols 0 to 2. */
  get current(): CurrentPublishKey {
    return this.#current;
  }

  /**
   * Returns the key with the next serial number. It is higher than every serial number that was
   * ever used with this key, even before a crash of the master.
   */
  async take(): Promise<{ readonly key: CrypticleKey; readonly serial: number }> {
    while (this.#isUsedUp()) {
      await this.#turn.run(async () => {
        if (!this.#isUsedUp()) return;
        const used = Math.max(this.#reservedUpTo, this.#nextSerial - 1);
        try {
          await this.#persist(used + this.#options.serialBlock);
        } catch (error) {
          // Another member has reserved serials or replaced the key in the meantime. The loop tries
          // again.
          if (!isConflict(error)) throw error;
        }
      });
    }
    return { key: this.#current.key, serial: this.#nextSerial++ };
  }

  /**
   * Marks the current key, so that the next start of the master replaces it. If {@link rotate}
   * replaces the key earlier, the new key has no mark.
   */
  async retire(): Promise<void> {
    await this.#turn.run(() =>
      this.#untilCurrent(async () => {
        this.#isRetired = true;
        await this.#write(this.#current, this.#reservedUpTo);
      }),
    );
  }

  /** Replaces the key immediately. All minions must then sign in again. */
  async rotate(): Promise<void> {
    const fresh = await makeKey(this.#options);
    await this.#turn.run(async () => {
      await this.#untilCurrent(async () => {
        this.#isRetired = false;
        await this.#write(fresh, this.#options.serialBlock);
      });
      // In a cluster, the log has already applied the change, and the key may even have been
      // replaced again.
      if (this.#options.cluster !== undefined) return;
      this.#current = fresh;
      this.#nextSerial = 1;
      this.#reservedUpTo = this.#options.serialBlock;
    });
  }

  /**
   * Calls `write`, and repeats it as long as it fails because another cluster member has changed
   * the row in the meantime.
   */
  async #untilCurrent(write: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        await write();
        return;
      } catch (error) {
        if (!isConflict(error)) throw error;
      }
    }
  }

  #isUsedUp(): boolean {
    return this.#nextSerial > this.#reservedUpTo;
  }

  async #persist(reservedUpTo: number): Promise<void> {
    const { current } = this;
    await this.#write(current, reservedUpTo);
    if (current === this.#current || this.#options.cluster === undefined) {
      this.#reservedUpTo = Math.max(this.#reservedUpTo, reservedUpTo);
    }
  }

  async #write(current: CurrentPublishKey, reservedUpTo: number): Promise<void> {
    const plain = publishKeyRow.encode({
      key: current.key.text,
      signature: current.signature,
      madeAt: current.madeAt,
      reservedUpTo,
      isRetired: this.#isRetired,
    });
    const value = this.#options.seal.seal(plain);
    const condition = this.#options.cluster === undefined ? {} : { ifRevision: this.#revision };
    await this.#options.store.write([{ op: 'put', key: record, value, ...condition }]);
  }
}

async function makeKey(options: PublishKeyOptions): Promise<CurrentPublishKey> {
  const key = parseKeyString(generateKeyString());
  return { key, signature: await options.sign(key.text), madeAt: options.now() };
}

interface SavedPublishKey {
  readonly current: CurrentPublishKey;
  readonly reservedUpTo: number;
  readonly isRetired: boolean;
}

function parseRecord(value: Uint8Array): SavedPublishKey {
  const row = publishKeyRow.decode({ key: record, value });
  const { signature, madeAt, reservedUpTo, isRetired = false } = row;
  const current = { key: parseKeyString(row.key), signature, madeAt };
  return { current, reservedUpTo, isRetired };
}
