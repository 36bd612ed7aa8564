/** Tokens of logged-in users: 256 random bits, of which only the digest is stored. */

import { createHash, randomBytes } from 'node:crypto';
import Type from 'typebox';
import {
  defineRow,
  type Entry,
  fromJson,
  jsonField,
  type Key,
  type RowOf,
  type Store,
  StoreError,
  Texts,
  writeInParts,
} from '#store';
import type { Cluster } from '../context/index.ts';

/** Row codec for `tokens/<SHA-256>`. */
const tokenRow = defineRow({
  name: 'token',
  schema: Type.Object({
    user: Type.String(),
    eauth: Type.String(),
    groups: Texts,
    /** Time of the log-in, in milliseconds since 1970. */
    start: Type.Number(),
    /** Expiry time, in milliseconds since 1970. */
    expire: Type.Number(),
    /** Entries of `external_auth` that applied at the log-in. Present with `keep_acl_in_token`. */
    rights: Type.Optional(Type.Unsafe<readonly unknown[]>(Type.Array(Type.Unknown()))),
  }),
  packed: { rights: jsonField },
  unversioned: fromJson,
});

/** Stored token, without the token itself. */
export type TokenRecord = RowOf<typeof tokenRow>;

/** Valid or expired token with its digest. */
export interface KnownToken extends TokenRecord {
  /** SHA-256 of the token, in hexadecimal. */
  readonly hash: string;
}

/** Clocks that determine the expiry of tokens. */
export interface TokenClocks {
  /** System clock, in milliseconds since 1970. */
  readonly now: () => number;
  /** Monotonic clock, in milliseconds. */
  readonly monotonic: () => number;
}

interface Held {
  readonly token: KnownToken;
  /** Expiry by the monotonic clock. Setting back the system clock does not extend a token. */
  readonly endsAt: number;
}

/** Prefix of the rows of tokens. */
export const tokensPrefix: Key = ['tokens'];
const prefix = tokensPrefix;
const form = /^[0-9a-f]{64}$/;

/** Maximum number of valid tokens. The oldest are evicted first. */
const maxTokens = 100_000;

/**
 * Tokens of a master, in the store and in memory. A revoked token is invalid immediately, and a
 * look-up does not read the store. A token expires by whichever clock reaches its end first.
 */
export class TokenTable {
  readonly #store: Store;
  readonly #clocks: TokenClocks;
  readonly #isStale: () => boolean;
  readonly #held = new Map<string, Held>();

  private constructor(store: Store, clocks: TokenClocks, isStale: () => boolean) {
    this.#isStale = isStale;
    this.#store = store;
    this.#clocks = clocks;
  }

  /**
   * Opens the table.
   * @param cluster cluster whose members share the tokens. Default: none
   */
  static async open(
    store: Store,
    clocks: TokenClocks,
    cluster?: Pick<Cluster, 'follow' | 'isStale'>,
  ): Promise<TokenTable> {
    const table = new TokenTable(store, clocks, () => cluster?.isStale() === true);
    cluster?.follow(prefix, (change) => {
      if (change.type === 'delete') {
        table.#held.delete(change.key.at(-1) ?? '');
        return;
      }
      const record = unpack(change.entry);
      if (record !== undefined) table.#hold({ ...record, hash: change.entry.key.at(-1) ?? '' });
    });
    const broken: string[] = [];
    const known: KnownToken[] = [];
    for await (const entry of store.list(prefix)) {
      const hash = entry.key.at(-1) ?? '';
      const record = unpack(entry);
      // The token starts in the future: the clock was set back while no master ran, so its age is
      // unknown.
      if (record === undefined || record.start > clocks.now()) broken.push(hash);
      else known.push({ ...record, hash });
    }
    for (const token of known.sort((a, b) => a.start - b.start)) table.#hold(token);
    await table.#delete(broken);
    await table.sweep();
    return table;
  }

  /** Creates a token, which is durable when this resolves. The secret is returned only here. */
  async create(record: TokenRecord): Promise<{ readonly secret: string; readonly hash: string }> {
    const secret = randomBytes(32).toString('hex');
    const token = { ...record, hash: digest(secret) };
    await this.#put(token);
    this.#hold(token);
    if (this.#held.size > maxTokens) await this.#forgetOldest();
    return { secret, hash: token.hash };
  }

  /** Returns a token if it is valid. Accepts any input. */
  find(secret: unknown): KnownToken | undefined {
    if (typeof secret !== 'string' || !form.test(secret)) return undefined;
    return this.get(digest(secret));
  }

  /**
   * Deletes a token if it has expired, so that no change of the clock revives it [THREATS C-25].
   */
  async dropExpired(secret: unknown): Promise<void> {
    if (typeof secret !== 'string' || !form.test(secret)) return;
    const held = this.#held.get(digest(secret));
    if (held !== undefined && this.#isOver(held)) await this.revoke([held.token.hash]);
  }

  /** Returns the token with this digest, if it is valid. */
  get(hash: string): KnownToken | undefined {
    if (this.#isStale()) return undefined;
    const held = this.#held.get(hash);
    return held === undefined || this.#isOver(held) ? undefined : held.token;
  }

  /** Stores the changed groups of a token's user. */
  async setGroups(hash: string, groups: readonly string[]): Promise<void> {
    const held = this.#held.get(hash);
    if (held === undefined) return;
    const token = { ...held.token, groups: [...groups] };
    this.#held.set(hash, { ...held, token });
    await this.#put(token);
  }

  /** Returns the valid tokens, oldest first. */
  list(): KnownToken[] {
    return [...this.#held.values()].filter((held) => !this.#isOver(held)).map(({ token }) => token);
  }

  /** Revokes tokens: immediately in memory, and durably when this resolves. */
  async revoke(hashes: readonly string[]): Promise<void> {
    await this.#delete(hashes.filter((hash) => this.#held.delete(hash)));
  }

  /**
   * Deletes expired tokens, so that no change of the clock revives them.
   * @returns their digests
   */
  async sweep(): Promise<readonly string[]> {
    const over = [...this.#held].filter(([, held]) => this.#isOver(held)).map(([hash]) => hash);
    await this.revoke(over);
    return over;
  }

  #hold(token: KnownToken): void {
    const { now, monotonic } = this.#clocks;
    // Limited to the original lifetime, even if the system clock was changed.
    const left = Math.min(token.expire - now(), token.expire - token.start);
    this.#held.set(token.hash, { token, endsAt: monotonic() + left });
  }

  #isOver({ token, endsAt }: Held): boolean {
    const { now, monotonic } = this.#clocks;
    return now() >= token.expire || monotonic() >= endsAt;
  }

  async #put({ hash, ...record }: KnownToken): Promise<void> {
    const value = tokenRow.encode(record);
    const key = [...prefix, hash];
    await this.#store.write([{ op: 'put', key, value, expiresAt: record.expire }]);
  }

  async #delete(hashes: readonly string[]): Promise<void> {
    const gone = hashes.map((hash) => ({ op: 'delete', key: [...prefix, hash] }) as const);
    await writeInParts(this.#store, gone);
  }

  async #forgetOldest(): Promise<void> {
    const [oldest] = this.#held.keys();
    if (oldest !== undefined) await this.revoke([oldest]);
  }
}

function digest(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

/**
 * Decodes a row, or returns `undefined` if it is damaged.
 * @throws StoreError ERR_STORE_VERSION
 */
function unpack(entry: Pick<Entry, 'key' | 'value'>): TokenRecord | undefined {
  try {
    return tokenRow.decode(entry);
  } catch (error) {
    if (error instanceof StoreError && error.code === 'ERR_STORE_CORRUPT') return undefined;
    throw error;
  }
}
