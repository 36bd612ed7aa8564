import Type from 'typebox';
import {
  type CrypticleKey,
  checkKeyString,
  generateKeyString,
  parseKeyString,
} from '#minion-protocol';
import {
  type Change,
  defineRow,
  type Entry,
  type Key,
  type RowOf,
  type Store,
  tryToWrite,
  writeInParts,
} from '#store';
import type { Cluster } from '../context/index.ts';
import { RecentKeys } from './recent-keys.ts';
import { type Seal, secretsPrefix } from './seal.ts';

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
      const put = { op: 'put', key: sessionKey(id), value, ifRevision } as const;
      if (await tryToWrite(store, [put])) return parseKeyString(session.text);
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
