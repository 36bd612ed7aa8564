/** The keys that are shared with minions: session keys, the publish key; and when each was heard. */

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
import { makeDirectory, readTextIfPresent, Semaphore, writeFileAtomically } from '#runtime';
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

/** Some 3 KB each. */
const maxKept = 2048;
/** Milliseconds without use after which one makes room. */
const idleMs = 60_000;
/** How exactly that is known: putting a key in its place is not worth it at each use. */
const preciseMs = 1000;

interface Kept {
  readonly key: CrypticleKey;
  usedAt: number;
}

/**
 * Keys of those who were heard lately, ready: making one ready takes longer than opening a request.
 * Where more minions speak than are kept, nobody takes the place of one that still speaks: what is
 * kept for a moment alone is memory that only a full collection gives back.
 */
export class RecentKeys {
  /** The one that was used last is the last. */
  readonly #kept = new Map<string, Kept>();
  readonly #now: () => number;

  /** @param now milliseconds of a clock that only goes forward */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** The minion's key with this text. */
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

  /** @returns whether there is room now */
  #makeRoom(now: number): boolean {
    if (this.#kept.size < maxKept) return true;
    const [longestUnused] = this.#kept;
    if (longestUnused === undefined || now - longestUnused[1].usedAt < idleMs) return false;
    return this.#kept.delete(longestUnused[0]);
  }
}

/** What the store holds of secrets that a restored store must not bring back. */
export const secretsPrefix: Key = ['secrets'];
const prefix: Key = [...secretsPrefix, 'sessions'];

/** Where the session of an id is. */
export function sessionKey(id: string): Key {
  return [...prefix, id];
}

/** Rows of sessions, sealed. The key is text: ready for use it takes some thirty times the room. */
const sessionRow = defineRow({
  name: 'session',
  schema: Type.Object({
    text: Type.String(),
    /** Milliseconds since 1970. */
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
  /** How long a session key serves (`publish_session`), milliseconds; 0: for ever. */
  readonly lifetimeMs: number;
  readonly now: () => number;
  /** Whose members share them; `undefined`: they are this master's alone. */
  readonly cluster?: Pick<Cluster, 'follow'> | undefined;
}

/**
 * The key that each minion of protocol 3 shares with the master alone [WIRE 7.2]. It is on disk
 * before a sign-in tells it, so a restart brings no new sign-in. One exists only for an id whose
 * key was accepted when it signed in [THREATS N-09].
 */
export class SessionKeys {
  readonly #options: SessionKeysOptions;
  readonly #sessions = new Map<string, Session>();
  readonly #recent = new RecentKeys();
  readonly #making = new Map<string, Promise<CrypticleKey>>();

  private constructor(options: SessionKeysOptions) {
    this.#options = options;
  }

  /** Reads the persisted sessions; those of ids that `isAccepted` refuses are deleted. */
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

  /** The key to open this minion's requests with, if it has one that still serves. */
  get(id: string): CrypticleKey | undefined {
    const session = this.#sessions.get(id);
    return session !== undefined && this.#serves(session)
      ? this.#recent.ready(id, session.text)
      : undefined;
  }

  /** Minions that have signed in, and whose keys are accepted still. */
  get ids(): readonly string[] {
    return [...this.#sessions.keys()];
  }

  /** When the minion's session key was made, milliseconds since 1970. */
  madeAt(id: string): number | undefined {
    return this.#sessions.get(id)?.madeAt;
  }

  /** The minion's key, made and stored if there is none that serves. */
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

  /** Ends these minions' sessions at once, then on disk. */
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

  /** What a member of the cluster has made or ended. */
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

  /** In memory from the start, so that {@link forget} also ends one that is being made. */
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

  /** A minion that signs in at several members at once has one key at all of them. */
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

/** Seals what the store holds of secrets, so that a copy of the store alone gives none away. */
export interface Seal {
  seal(plain: Uint8Array): Uint8Array;
  /** @throws MasterError ERR_SEAL when it was sealed with another key, or altered */
  open(sealed: Uint8Array): Uint8Array;
  /** Another key of 32 bytes, always the same for a purpose; the seal's own is not known by it. */
  derive(purpose: string): Uint8Array;
}

/** A seal with a given key of 32 bytes (XSalsa20-Poly1305, a random nonce in front). */
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
          'a sealed record does not open with this seal key; restore the key that belongs to the store',
        );
      }
      return plain;
    },
    derive: (purpose) => new Uint8Array(hkdfSync('sha256', key, '', purpose, 32)),
  };
}

/**
 * The seal of a master: its key lies in `<stateDir>/seal.key` (0600, 44 characters of base64),
 * outside the store and its backups. Made at the first start.
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

/** `undefined`: there is none. @throws MasterError ERR_SEAL */
export async function readSealKey(stateDir: string): Promise<Uint8Array | undefined> {
  const file = sealKeyFile(stateDir);
  const text = await readTextIfPresent(file);
  if (text === undefined) return undefined;
  const key = Buffer.from(text.trim(), 'base64');
  if (key.length === nacl.secretbox.keyLength) return new Uint8Array(key);
  throw new MasterError(
    'ERR_SEAL',
    `${file}: expected ${nacl.secretbox.keyLength} bytes in base64`,
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

/** The row of the publish key, sealed. */
const publishKeyRow = defineRow({
  name: 'publish key',
  schema: Type.Object({
    key: Type.String(),
    signature: Bytes,
    /** Milliseconds since 1970. */
    madeAt: Type.Number(),
    reservedUpTo: Type.Number(),
    isRetired: Type.Optional(Type.Boolean()),
  }),
  unversioned: unpackLocal,
});

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
  /** Whose members share the key; `undefined`: it is this master's alone. */
  readonly cluster?: Pick<Cluster, 'follow'> | undefined;
}

/**
 * The AES key that all minions share for publications, with its serial numbers [WIRE 3.4, 7.1].
 * Key and serial persist together: the serials of a block are on disk as used up before the first
 * of them is given out, so no restart ever gives one twice under the same key, and a restart
 * needs no new sign-in of any minion.
 *
 * Members of a cluster share the key, and what of its serials is used up. Each gives its own minions
 * serials of its own, which are above those that it has heard of from others ({@link observe}): a
 * minion that comes from another member is given higher ones.
 */
export class PublishKey {
  readonly #options: PublishKeyOptions;
  #current: CurrentPublishKey;
  #isRetired = false;
  #nextSerial: number;
  #reservedUpTo: number;
  /** Writes of the record follow each other, so that an old key never overwrites a new one. */
  readonly #turn = new Semaphore(1);
  /** Of the record, in a cluster; 0: there is none. */
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

  /** Opens the persisted key, or makes the first one. */
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
      // Another member has made one meanwhile, which it follows.
      if (!isOutdated(error)) throw error;
    }
    return fresh;
  }

  /** Serials that this master gives from now on are above one that another member has given. */
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
      await this.#turn.run(async () => {
        if (!this.#isUsedUp()) return;
        const used = Math.max(this.#reservedUpTo, this.#nextSerial - 1);
        try {
          await this.#persist(used + this.#options.serialBlock);
        } catch (error) {
          // Another member has reserved some, or replaced the key.
          if (!isOutdated(error)) throw error;
        }
      });
    }
    return { key: this.#current.key, serial: this.#nextSerial++ };
  }

  /** Has the next start replace the key, if {@link rotate} has not done so before. */
  async retire(): Promise<void> {
    await this.#turn.run(() =>
      this.#untilCurrent(async () => {
        this.#isRetired = true;
        await this.#write(this.#current, this.#reservedUpTo);
      }),
    );
  }

  /** Replaces the key at once; whoever holds the old one must sign in again. */
  async rotate(): Promise<void> {
    const fresh = await makeKey(this.#options);
    await this.#turn.run(async () => {
      await this.#untilCurrent(async () => {
        this.#isRetired = false;
        await this.#write(fresh, this.#options.serialBlock);
      });
      // Taken over already, and perhaps replaced again.
      if (this.#options.cluster !== undefined) return;
      this.#current = fresh;
      this.#nextSerial = 1;
      this.#reservedUpTo = this.#options.serialBlock;
    });
  }

  /** Repeats a write until no other member has written meanwhile. */
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

/** Where a minion's last request came from. */
export type HeardFrom = Pick<Peer, 'address' | 'transport'>;

/** A minion's last verified request. */
interface Heard {
  /** Milliseconds since 1970. */
  at: number;
  from: HeardFrom;
}

/**
 * When each minion's last verified request came, and from where. In memory only: it tells of this
 * master's time. Bounded by the accepted keys, because only their requests are noted and lost keys
 * are forgotten.
 */
export class LastHeard {
  readonly #heard = new Map<string, Heard>();
  readonly #listeners = new Set<(minionId: string) => void>();

  /** @param at milliseconds since 1970 */
  note(minionId: string, at: number, { address, transport }: HeardFrom): void {
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
   * Calls the listener when a minion is heard that was not since the start, or since it was
   * forgotten, until the function given is called.
   */
  onFirst(listener: (minionId: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Milliseconds since 1970; `undefined`: not since the start. */
  of(minionId: string): number | undefined {
    return this.#heard.get(minionId)?.at;
  }

  /** Where it was heard last. */
  lastRemote(minionId: string): HeardFrom | undefined {
    return this.#heard.get(minionId)?.from;
  }

  /** How many minions were heard. */
  get size(): number {
    return this.#heard.size;
  }

  forget(minionIds: readonly string[]): void {
    for (const id of minionIds) this.#heard.delete(id);
  }
}
