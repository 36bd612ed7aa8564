import { hkdfSync, randomBytes } from 'node:crypto';
import path from 'node:path';
import nacl from 'tweetnacl';
import {
  type CrypticleKey,
  checkKeyString,
  generateKeyString,
  parseKeyString,
} from '../../minion-protocol/index.ts';
import { makeDirectory, readTextIfPresent, writeFileAtomically } from '../../runtime/index.ts';
import type { Key, Store } from '../../store/index.ts';
import { MasterError } from '../api/index.ts';

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

/** As text: ready for use it takes some thirty times the room. */
interface Session {
  readonly text: string;
  readonly madeAt: number;
}

export interface SessionKeysOptions {
  readonly store: Store;
  readonly seal: Seal;
  /** How long a session key serves (`publish_session`), milliseconds; 0: for ever. */
  readonly lifetimeMs: number;
  readonly now: () => number;
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
    const stale: string[] = [];
    for await (const entry of options.store.list(prefix)) {
      const id = entry.key.at(-1) ?? '';
      if (!isAccepted(id)) stale.push(id);
      else keys.#sessions.set(id, parseSession(options.seal.open(entry.value)));
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
    await this.#options.store.write(ids.map((id) => ({ op: 'delete', key: [...prefix, id] })));
  }

  /** In memory from the start, so that {@link forget} also ends one that is being made. */
  async #make(id: string): Promise<CrypticleKey> {
    const session = { text: generateKeyString(), madeAt: this.#options.now() };
    const plain = Buffer.from(`${session.madeAt} ${session.text}`, 'ascii');
    const value = this.#options.seal.seal(plain);
    this.#sessions.set(id, session);
    try {
      await this.#options.store.write([{ op: 'put', key: [...prefix, id], value }]);
    } catch (error) {
      if (this.#sessions.get(id) === session) this.#sessions.delete(id);
      throw error;
    }
    return parseKeyString(session.text);
  }

  #serves(session: Session): boolean {
    const { lifetimeMs, now } = this.#options;
    return lifetimeMs === 0 || now() - session.madeAt < lifetimeMs;
  }
}

function parseSession(bytes: Uint8Array): Session {
  const [madeAt = '', text = ''] = Buffer.from(bytes).toString('ascii').split(' ');
  return { text: checkKeyString(text), madeAt: Number(madeAt) };
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
  const file = path.join(stateDir, 'seal.key');
  const text = await readTextIfPresent(file);
  if (text !== undefined) {
    const key = Buffer.from(text.trim(), 'base64');
    if (key.length !== nacl.secretbox.keyLength) {
      throw new MasterError(
        'ERR_SEAL',
        `${file}: expected ${nacl.secretbox.keyLength} bytes in base64`,
      );
    }
    return createSeal(new Uint8Array(key));
  }
  const key = randomBytes(nacl.secretbox.keyLength);
  await makeDirectory(stateDir, 0o700);
  await writeFileAtomically(file, `${key.toString('base64')}\n`, 0o600);
  return createSeal(new Uint8Array(key));
}
