import {
  type CrypticleKey,
  checkKeyString,
  generateKeyString,
  parseKeyString,
} from '../../minion-protocol/index.ts';
import type { Key, Store } from '../../store/index.ts';
import { secretsPrefix } from './publish-key.ts';
import { RecentKeys } from './recent-keys.ts';
import type { Seal } from './seal.ts';

const prefix: Key = [...secretsPrefix, 'sessions'];

/** As text: ready for use it takes some thirty times the room. */
interface Session {
  readonly text: string;
  readonly madeAt: number;
}

/** What {@link SessionKeys} needs. */
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
