import {
  type CrypticleKey,
  generateKeyString,
  packLocal,
  parseKeyString,
  unpackLocal,
} from '../../minion-protocol/index.ts';
import type { Key, Store } from '../../store/index.ts';
import { MasterError } from '../api/index.ts';
import { type Seal, secretsPrefix } from './session-keys.ts';

const record: Key = [...secretsPrefix, 'publish-key'];

/** The key of the moment, and what is derived from it once. */
export interface CurrentPublishKey {
  readonly key: CrypticleKey;
  /** X9.31 signature of its digest by the master, sent in every accepted sign-in [WIRE 3.3]. */
  readonly signature: Uint8Array;
  /** Milliseconds since 1970. */
  readonly madeAt: number;
}

export interface PublishKeyOptions {
  readonly store: Store;
  readonly seal: Seal;
  /** Signs the digest of a new key with the master's private key, off the main thread. */
  readonly sign: (keyString: string) => Promise<Uint8Array>;
  /** How many serials are reserved on disk at a time (`saltbridge: publish_serial_block`). */
  readonly serialBlock: number;
  readonly now: () => number;
}

/**
 * The AES key that all minions share for publications, with its serial numbers [WIRE 3.4, 7.1].
 * Key and serial persist together: the serials of a block are on disk as used up before the first
 * of them is given out, so no restart ever gives one twice under the same key, and a restart
 * needs no new sign-in of any minion.
 */
export class PublishKey {
  readonly #options: PublishKeyOptions;
  #current: CurrentPublishKey;
  #isRetired = false;
  #nextSerial: number;
  #reservedUpTo: number;
  #lastWrite: Promise<void> = Promise.resolve();

  private constructor(options: PublishKeyOptions, current: CurrentPublishKey, serial: number) {
    this.#options = options;
    this.#current = current;
    this.#nextSerial = serial + 1;
    this.#reservedUpTo = serial;
  }

  /** Opens the persisted key, or makes the first one. */
  static async open(options: PublishKeyOptions): Promise<PublishKey> {
    const entry = await options.store.get(record);
    if (entry === undefined) return PublishKey.#make(options);
    const saved = parseRecord(options.seal.open(entry.value));
    if (saved.isRetired) return PublishKey.#make(options);
    // protection: serials-begin-anew
    return new PublishKey(options, saved.current, saved.reservedUpTo);
  }

  static async #make(options: PublishKeyOptions): Promise<PublishKey> {
    const fresh = new PublishKey(options, await makeKey(options), 0);
    await fresh.#persist(options.serialBlock);
    return fresh;
  }

  /** For requests of protocols 0 and 2, their replies, and publications. */
  get current(): CurrentPublishKey {
    return this.#current;
  }

  /**
   * The key with its next serial: greater than every one given under this key, also before a
   * crash.
   */
  async take(): Promise<{ readonly key: CrypticleKey; readonly serial: number }> {
    while (this.#isUsedUp()) {
      await this.#inTurn(async () => {
        if (this.#isUsedUp()) await this.#persist(this.#reservedUpTo + this.#options.serialBlock);
      });
    }
    return { key: this.#current.key, serial: this.#nextSerial++ };
  }

  /** Has the next start replace the key, if {@link rotate} has not done so before. */
  async retire(): Promise<void> {
    await this.#inTurn(async () => {
      this.#isRetired = true;
      await this.#write(this.#current, this.#reservedUpTo);
    });
  }

  /** Replaces the key at once; whoever holds the old one must sign in again. */
  async rotate(): Promise<void> {
    const fresh = await makeKey(this.#options);
    await this.#inTurn(async () => {
      this.#isRetired = false;
      await this.#write(fresh, this.#options.serialBlock);
      this.#current = fresh;
      this.#nextSerial = 1;
      this.#reservedUpTo = this.#options.serialBlock;
    });
  }

  #isUsedUp(): boolean {
    return this.#nextSerial > this.#reservedUpTo;
  }

  /** Writes of the record follow each other, so that an old key never overwrites a new one. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#lastWrite.then(work);
    this.#lastWrite = turn.catch(() => {
      // Told to the caller of this turn; the next one starts afresh.
    });
    return turn;
  }

  async #persist(reservedUpTo: number): Promise<void> {
    await this.#write(this.#current, reservedUpTo);
    this.#reservedUpTo = reservedUpTo;
  }

  async #write(current: CurrentPublishKey, reservedUpTo: number): Promise<void> {
    const plain = packLocal({
      key: current.key.text,
      signature: current.signature,
      madeAt: current.madeAt,
      reservedUpTo,
      isRetired: this.#isRetired,
    });
    await this.#options.store.write([
      { op: 'put', key: record, value: this.#options.seal.seal(plain) },
    ]);
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

function parseRecord(bytes: Uint8Array): SavedPublishKey {
  const value = unpackLocal(bytes);
  if (value !== null && typeof value === 'object' && 'key' in value && 'signature' in value) {
    const { key, signature, madeAt, reservedUpTo, isRetired } = value;
    if (
      typeof key === 'string' &&
      signature instanceof Uint8Array &&
      typeof madeAt === 'number' &&
      typeof reservedUpTo === 'number'
    ) {
      const current = { key: parseKeyString(key), signature, madeAt };
      return { current, reservedUpTo, isRetired: isRetired === true };
    }
  }
  throw new MasterError('ERR_SEAL', 'the stored publish key has an unknown form');
}
