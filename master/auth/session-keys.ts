/**
 * Keys shared with minions (session keys and the publish key), encryption of secrets in the store,
 * and the times of minions' last requests.
 */

import { hkdfSync, randomBytes } from 'node:crypto';
import path from 'node:path';
import nacl from 'tweetnacl';
import Type from 'typebox';
import {
  type CrypticleKey,
  checkKeyString,
  generateKeyString,
  type Peer,
  parseKeyString,
  unpackLocal,
} from '#minion-protocol';
import { Mutex, makeDirectory, readTextIfPresent, writeFileAtomically } from '#runtime';
import {
  Bytes,
  type Change,
  defineRow,
  type Entry,
  type Key,
  type RowOf,
  type Store,
  StoreError,
  writeInParts,
} from '#store';
import { MasterError } from '../api/index.ts';
import type { Cluster } from '../context/index.ts';

/** Maximum number of prepared session keys in the cache. Each takes about 3 KB. */
const maxKept = 2048;
/** Time without use after which a key may be evicted, in milliseconds. */
const idleMs = 60_000;
/**
 * Minimum time between two recorded uses of the same key, in milliseconds. Uses in between are not
 * recorded. This saves time, because recording a use changes the order of the cache.
 */
const preciseMs = 1000;

interface Kept {
  readonly key: CrypticleKey;
  usedAt: number;
}

/**
 * Session keys of recently active minions, in the prepared form that decryption needs. Preparing a
 * key takes longer than decrypting a request. If the cache is full, it evicts only keys that have
 * not been used for a minute. If all keys were used within the last minute, a further key is not
 * cached: frequently replaced entries would occupy memory that only a full garbage collection
 * frees.
 */
export class RecentKeys {
  /** Cached keys. The most recently used key is last. */
  readonly #kept = new Map<string, Kept>();
  readonly #now: () => number;

  /** @param now - returns the time of a monotonic clock, in milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Returns the session key of a minion in prepared form. If the cache does not contain a key with
   * this text for the minion, prepares the key from the text.
   */
  ready(id: string, text: string): CrypticleKey {
    const now = this.#now();
    const kept = this.#kept.get(id);
    if (kept?.key.text === text) {
      if (now - kept.usedAt < preciseMs) return kept.key;
      kept.usedAt = now;
      this.#kept.delete(id);
      this.#kept.set(id, kept);
      return kept.key;
    }
    const key = parseKeyString(text);
    this.#kept.delete(id);
    if (this.#makeRoom(now)) this.#kept.set(id, { key, usedAt: now });
    return key;
  }

  forget(id: string): void {
    this.#kept.delete(id);
  }

  /**
   * Evicts an idle key if necessary.
   * @returns whether the cache has space for a key
   */
  #makeRoom(now: number): boolean {
    if (this.#kept.size < maxKept) return true;
    const [longestUnused] = this.#kept;
    if (longestUnused === undefined || now - longestUnused[1].usedAt < idleMs) return false;
    return this.#kept.delete(longestUnused[0]);
  }
}

/** Prefix of the store rows that contain secrets. Restoring a backup omits these rows. */
export const secretsPrefix: Key = ['secrets'];
const prefix: Key = [...secretsPrefix, 'sessions'];

/** Returns the store key of the row with a minion's session. The minion's AES key is in the row. */
export function sessionKey(id: string): Key {
  return [...prefix, id];
}

/**
 * Codec of the rows with sessions, which are encrypted in the store. In memory, the key is held as
 * text, because a prepared key takes about thirty times as much memory.
 */
const sessionRow = defineRow({
  name: 'session',
  schema: Type.Object({
    text: Type.String(),
    /** Time of creation, in milliseconds since 1970. */
    madeAt: Type.Number(),
  }),
  unversioned: (bytes) => {
    const [madeAt = '', text = ''] = Buffer.from(bytes).toString('ascii').split(' ');
    return { text, madeAt: Number(madeAt) };
  },
});

type Session = RowOf<typeof sessionRow>;

export interface SessionKeysOptions {
  readonly store: Store;
  readonly seal: Seal;
  /** Lifetime of a session key (`publish_session`), in milliseconds. 0 means unlimited. */
  readonly lifetimeMs: number;
  readonly now: () => number;
  /** Cluster of this master. Its members share the sessions. `undefined` outside a cluster. */
  readonly cluster?: Pick<Cluster, 'follow'> | undefined;
}

/**
 * Session keys. Each is known to the master and to one minion of protocol 3 [WIRE 7.2]. The master
 * stores a session key before it replies to the sign-in. After a restart of the master, minions
 * therefore need not sign in again. A minion gets a session key only if its public key is accepted
 * [THREATS N-09].
 */
export class SessionKeys {
  readonly #options: SessionKeysOptions;
  readonly #sessions = new Map<string, Session>();
  readonly #recent = new RecentKeys();
  readonly #making = new Map<string, Promise<CrypticleKey>>();

  private constructor(options: SessionKeysOptions) {
    this.#options = options;
  }

  /** Opens the stored sessions, and deletes the sessions of ids that are no longer accepted. */
  static async open(
    options: SessionKeysOptions,
    isAccepted: (id: string) => boolean,
  ): Promise<SessionKeys> {
    const keys = new SessionKeys(options);
    options.cluster?.follow(prefix, (change) => keys.#takeOver(change));
    const stale: string[] = [];
    for await (const entry of options.store.list(prefix)) {
      const id = entry.key.at(-1) ?? '';
      if (!isAccepted(id)) stale.push(id);
      else
        keys.#sessions.set(id, parseSession({ ...entry, value: options.seal.open(entry.value) }));
    }
    await keys.forget(stale);
    return keys;
  }

  /**
   * Returns the session key that decrypts this minion's requests, or `undefined` if it has no valid
   * one.
   */
  get(id: string): CrypticleKey | undefined {
    const session = this.#sessions.get(id);
    return session !== undefined && this.#serves(session)
      ? this.#recent.ready(id, session.text)
      : undefined;
  }

  /** Ids of minions that have signed in and still have an accepted key. */
  get ids(): readonly string[] {
    return [...this.#sessions.keys()];
  }

  /** Returns the creation time of the minion's session key, in milliseconds since 1970. */
  madeAt(id: string): number | undefined {
    return this.#sessions.get(id)?.madeAt;
  }

  /** Returns the session key of a minion. Creates and stores one if necessary. */
  async obtain(id: string): Promise<CrypticleKey> {
    const underWay = this.#making.get(id);
    if (underWay !== undefined) return underWay;
    const existing = this.get(id);
    if (existing !== undefined) return existing;
    const making = this.#make(id).finally(() => {
      if (this.#making.get(id) === making) this.#making.delete(id);
    });
    this.#making.set(id, making);
    return making;
  }

  /**
   * Ends the sessions of minions, first in memory and then on disk. The change in memory is
   * synchronous.
   */
  async forget(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    for (const id of ids) {
      this.#sessions.delete(id);
      this.#recent.forget(id);
      this.#making.delete(id);
    }
    const gone = ids.map((id) => ({ op: 'delete', key: [...prefix, id] }) as const);
    await writeInParts(this.#options.store, gone);
  }

  /** Applies a session that another member of the cluster created or ended. */
  #takeOver(change: Change): void {
    if (change.type === 'delete') {
      const id = change.key.at(-1) ?? '';
      this.#sessions.delete(id);
      this.#recent.forget(id);
      return;
    }
    const { key, value } = change.entry;
    this.#sessions.set(
      key.at(-1) ?? '',
      parseSession({ key, value: this.#options.seal.open(value) }),
    );
  }

  /**
   * Creates a session. The session is added to memory before it is written to the store. So
   * {@link forget} can end it even while it is being written.
   */
  async #make(id: string): Promise<CrypticleKey> {
    if (this.#options.cluster !== undefined) return this.#makeShared(id);
    const session = { text: generateKeyString(), madeAt: this.#options.now() };
    const value = this.#options.seal.seal(sessionRow.encode(session));
    this.#sessions.set(id, session);
    try {
      await this.#options.store.write([{ op: 'put', key: [...prefix, id], value }]);
    } catch (error) {
      if (this.#sessions.get(id) === session) this.#sessions.delete(id);
      throw error;
    }
    return parseKeyString(session.text);
  }

  /**
   * Creates a session in a cluster. If a minion signs in at several members at the same time, all
   * of them use the same key.
   */
  async #makeShared(id: string): Promise<CrypticleKey> {
    const { store, seal, now } = this.#options;
    for (;;) {
      const entry = await store.get(sessionKey(id));
      const present = entry && parseSession({ ...entry, value: seal.open(entry.value) });
      if (present !== undefined && this.#serves(present)) {
        this.#sessions.set(id, present);
        return parseKeyString(present.text);
      }
      const session = { text: generateKeyString(), madeAt: now() };
      const value = seal.seal(sessionRow.encode(session));
      const ifRevision = entry?.revision ?? 0;
      try {
        await store.write([{ op: 'put', key: sessionKey(id), value, ifRevision }]);
        return parseKeyString(session.text);
      } catch (error) {
        if (!(error instanceof StoreError && error.code === 'ERR_REVISION')) throw error;
      }
    }
  }

  #serves(session: Session): boolean {
    const { lifetimeMs, now } = this.#options;
    return lifetimeMs === 0 || now() - session.madeAt < lifetimeMs;
  }
}

function parseSession(entry: Pick<Entry, 'key' | 'value'>): Session {
  const { text, madeAt } = sessionRow.decode(entry);
  return { text: checkKeyString(text), madeAt };
}

/** Encrypts secrets in the store, so that a copy of the store alone does not reveal them. */
export interface Seal {
  seal(plain: Uint8Array): Uint8Array;
  /**
   * Decrypts data.
   * @throws MasterError ERR_SEAL if the data was encrypted with another key, or altered
   */
  open(sealed: Uint8Array): Uint8Array;
  /**
   * Derives a key of 32 bytes from the encryption key of this object. For the same purpose, the
   * result is always the same. It does not reveal the encryption key.
   */
  derive(purpose: string): Uint8Array;
}

/**
 * Creates a seal, which encrypts secrets with a key of 32 bytes. Uses XSalsa20-Poly1305. The
 * encrypted data begin with a random nonce.
 */
export function createSeal(key: Uint8Array): Seal {
  return {
    seal(plain) {
      const nonce = new Uint8Array(randomBytes(nacl.secretbox.nonceLength));
      const box = nacl.secretbox(new Uint8Array(plain), nonce, key);
      return Buffer.concat([nonce, box]);
    },
    open(sealed) {
      const nonce = new Uint8Array(sealed.subarray(0, nacl.secretbox.nonceLength));
      const box = new Uint8Array(sealed.subarray(nacl.secretbox.nonceLength));
      const plain =
        nonce.length === nacl.secretbox.nonceLength ? nacl.secretbox.open(box, nonce, key) : null;
      if (plain === null) {
        throw new MasterError(
          'ERR_SEAL',
          'a sealed record cannot be decrypted with this seal key; restore the key that belongs to the store',
        );
      }
      return plain;
    },
    derive: (purpose) => new Uint8Array(hkdfSync('sha256', key, '', purpose, 32)),
  };
}

/**
 * Opens the seal of a master, which encrypts secrets for the store. The key of the seal is in
 * `<stateDir>/seal.key` (mode 0600, 44 characters of base64), outside the store and its backups.
 * The first start creates the key.
 */
export async function openSeal(stateDir: string): Promise<Seal> {
  const known = await readSealKey(stateDir);
  if (known !== undefined) return createSeal(known);
  const key = makeSealKey();
  await makeDirectory(stateDir, 0o700);
  await writeSealKey(stateDir, key);
  return createSeal(key);
}

export function makeSealKey(): Uint8Array {
  return new Uint8Array(randomBytes(nacl.secretbox.keyLength));
}

/**
 * Reads the seal key. Returns `undefined` if it does not exist.
 * @throws MasterError ERR_SEAL
 */
export async function readSealKey(stateDir: string): Promise<Uint8Array | undefined> {
  const file = sealKeyFile(stateDir);
  const text = await readTextIfPresent(file);
  if (text === undefined) return undefined;
  const key = Buffer.from(text.trim(), 'base64');
  if (key.length === nacl.secretbox.keyLength) return new Uint8Array(key);
  throw new MasterError(
    'ERR_SEAL',
    `${file}: the seal key must be ${nacl.secretbox.keyLength} bytes in base64; restore it from a backup`,
  );
}

export async function writeSealKey(stateDir: string, key: Uint8Array): Promise<void> {
  const text = `${Buffer.from(key).toString('base64')}\n`;
  await writeFileAtomically(sealKeyFile(stateDir), text, 0o600);
}

function sealKeyFile(stateDir: string): string {
  return path.join(stateDir, 'seal.key');
}

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
      if (!isOutdated(error)) throw error;
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
          if (!isOutdated(error)) throw error;
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
        if (!isOutdated(error)) throw error;
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

function isOutdated(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'ERR_REVISION';
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

/** Address and transport of a minion's last request. */
export type RequestSource = Pick<Peer, 'address' | 'transport'>;

/** Last verified request of a minion. */
interface Heard {
  /** Time of the request, in milliseconds since 1970. */
  at: number;
  from: RequestSource;
}

/**
 * Times and sources of minions' last verified requests since the start of the master. They are held
 * only in memory. Only minions with an accepted key have an entry. The entry is deleted with the
 * key, so the number of entries is limited.
 */
export class LastRequests {
  readonly #heard = new Map<string, Heard>();
  readonly #listeners = new Set<(minionId: string) => void>();

  /**
   * Records a request.
   * @param at - time in milliseconds since 1970
   */
  note(minionId: string, at: number, { address, transport }: RequestSource): void {
    const known = this.#heard.get(minionId);
    if (known === undefined) {
      this.#heard.set(minionId, { at, from: { address, transport } });
      for (const listener of this.#listeners) listener(minionId);
      return;
    }
    known.at = at;
    if (known.from.address === address && known.from.transport === transport) return;
    known.from = { address, transport };
  }

  /**
   * Calls the listener at the first request of a minion since the start of the master, or since
   * {@link forget} was called for it. Returns a function that removes the listener.
   */
  onFirst(listener: (minionId: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Returns the time of the last request in milliseconds since 1970, or `undefined` if there was
   * none since the start.
   */
  of(minionId: string): number | undefined {
    return this.#heard.get(minionId)?.at;
  }

  /** Returns the source of the last request. */
  lastRemote(minionId: string): RequestSource | undefined {
    return this.#heard.get(minionId)?.from;
  }

  /** Number of minions that have sent a verified request. */
  get size(): number {
    return this.#heard.size;
  }

  forget(minionIds: readonly string[]): void {
    for (const id of minionIds) this.#heard.delete(id);
  }
}
