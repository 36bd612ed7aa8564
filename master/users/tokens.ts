/** Tokens of users who have logged in. A token has 256 random bits. Only its digest is stored. */

import { hash, randomBytes } from 'node:crypto';
import Type from 'typebox';
import { FairTable, type Limit, LimitExceeded } from '#runtime';
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
import { userLimits } from './limits.ts';

/** Codec of the rows `tokens/<SHA-256>`. */
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
    /**
     * Entries of `external_auth` that applied to the user at the log-in. Present only with
     * `keep_acl_in_token`.
     */
    rights: Type.Optional(Type.Unsafe<readonly unknown[]>(Type.Array(Type.Unknown()))),
  }),
  packed: { rights: jsonField },
  unversioned: fromJson,
});

/** Stored attributes of a token. The token itself is not stored. */
export type TokenRecord = RowOf<typeof tokenRow>;

/** Attributes of a token and its digest. The token may have expired. */
export interface KnownToken extends TokenRecord {
  /** SHA-256 of the token, in hexadecimal. */
  readonly hash: string;
}

/** Clocks that determine the expiry of tokens. */
export interface TokenClocks {
  /** System clock: returns the time in milliseconds since 1970. */
  readonly now: () => number;
  /** Monotonic clock: returns a time in milliseconds. */
  readonly monotonic: () => number;
}

interface Held {
  readonly token: KnownToken;
  /**
   * Expiry time by the monotonic clock, in milliseconds. With it, setting back the system clock
   * does not extend the lifetime of a token.
   */
  readonly endsAt: number;
}

/** Prefix of the rows of tokens. */
export const tokensPrefix: Key = ['tokens'];
const prefix = tokensPrefix;
const form = /^[0-9a-f]{64}$/;

/**
 * Tokens of a master, in the store and in memory. A look-up reads only memory. A revoked token is
 * invalid immediately. A token expires as soon as the system clock or the monotonic clock reaches
 * its expiry time.
 */
export class TokenTable {
  readonly #store: Store;
  readonly #clocks: TokenClocks;
  readonly #isStale: () => boolean;
  /**
   * Tokens by digest. If the table is full, the cluster member that creates a token chooses which
   * token to evict. The other members only repeat this change, so that all have the same tokens.
   */
  readonly #held: FairTable<Held>;
  readonly #limit: Limit;

  private constructor(store: Store, clocks: TokenClocks, isStale: () => boolean, limit: Limit) {
    this.#limit = limit;
    this.#held = new FairTable(limit, {}, {});
    this.#isStale = isStale;
    this.#store = store;
    this.#clocks = clocks;
  }

  /**
   * Opens the table and loads the stored tokens.
   * @param cluster - the cluster of this master. Its members share the tokens. Default: the master
   * has no cluster
   */
  static async open(
    store: Store,
    clocks: TokenClocks,
    cluster?: Pick<Cluster, 'follow' | 'isStale'>,
    limit: Limit = userLimits.tokens,
  ): Promise<TokenTable> {
    const table = new TokenTable(store, clocks, () => cluster?.isStale() === true, limit);
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
      // The start of the token is in the future. The clock was set back while the master was not
      // running, so the age of the token is unknown.
      if (record === undefined || record.start > clocks.now()) broken.push(hash);
      else known.push({ ...record, hash });
    }
    for (const token of known.sort((a, b) => a.start - b.start)) table.#hold(token);
    await table.#delete(broken);
    await table.sweep();
    return table;
  }

  /**
   * Creates a token, which is durable when the promise resolves. The secret is returned only here.
   * @throws LimitExceeded if the table is full and every token belongs to a different user
   */
  async create(record: TokenRecord): Promise<{ readonly secret: string; readonly hash: string }> {
    const secret = randomBytes(32).toString('hex');
    const token = { ...record, hash: digest(secret) };
    const surplus = this.#surplusFor(token);
    await this.#put(token);
    this.#hold(token);
    await this.revoke(surplus);
    return { secret, hash: token.hash };
  }

  /** Returns a token if it is valid. Accepts any input. */
  find(secret: unknown): KnownToken | undefined {
    if (typeof secret !== 'string' || !form.test(secret)) return undefined;
    return this.get(digest(secret));
  }

  /**
   * Deletes a token if it has expired. If an expired token were kept, a change of the clock could
   * make it valid again [THREATS C-25].
   */
  async dropExpired(secret: unknown): Promise<void> {
    if (typeof secret !== 'string' || !form.test(secret)) return;
    const held = this.#held.peek(digest(secret));
    if (held !== undefined && this.#isOver(held)) await this.revoke([held.token.hash]);
  }

  /**
   * Returns the token with this digest if it is valid. Returns `undefined` also while the data of
   * this cluster member may be outdated.
   */
  get(hash: string): KnownToken | undefined {
    if (this.#isStale()) return undefined;
    const held = this.#held.peek(hash);
    return held === undefined || this.#isOver(held) ? undefined : held.token;
  }

  /** Replaces the groups in a token, after the groups of its user have changed. */
  async setGroups(hash: string, groups: readonly string[]): Promise<void> {
    const held = this.#held.peek(hash);
    if (held === undefined) return;
    const token = { ...held.token, groups: [...groups] };
    this.#held.set(ownerOf(token), hash, { ...held, token });
    await this.#put(token);
  }

  /** Returns the valid tokens, oldest first. */
  list(): KnownToken[] {
    return [...this.#held.values()].filter((held) => !this.#isOver(held)).map(({ token }) => token);
  }

  /**
   * Revokes tokens. They are invalid in memory immediately, and durably when the promise resolves.
   */
  async revoke(hashes: readonly string[]): Promise<void> {
    await this.#delete(hashes.filter((hash) => this.#held.delete(hash)));
  }

  /**
   * Deletes expired tokens. If they were kept, a change of the clock could make them valid again.
   * @returns the digests of the deleted tokens
   */
  async sweep(): Promise<readonly string[]> {
    const held = [...this.#held.values()];
    const over = held.filter((it) => this.#isOver(it)).map(({ token }) => token.hash);
    await this.revoke(over);
    return over;
  }

  #hold(token: KnownToken): void {
    const { now, monotonic } = this.#clocks;
    // The remaining time is limited to the original lifetime, even if the system clock was changed.
    const left = Math.min(token.expire - now(), token.expire - token.start);
    this.#held.set(ownerOf(token), token.hash, { token, endsAt: monotonic() + left });
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

  /**
   * Returns the digests of the tokens that must be revoked when a new token is added. The list is
   * empty while the table is not full.
   */
  #surplusFor(token: KnownToken): readonly string[] {
    const { total = Infinity } = this.#limit;
    if (this.#held.size < total) return [];
    const victim = this.#held.victimOf(ownerOf(token));
    if (victim === undefined) throw new LimitExceeded(this.#limit, total);
    return [victim];
  }
}

/**
 * Returns the name under which the tokens of a user are counted: backend and user name. Users with
 * the same name from different backends are different users.
 */
function ownerOf({ eauth, user }: Pick<TokenRecord, 'eauth' | 'user'>): string {
  return `${eauth} ${user}`;
}

function digest(secret: string): string {
  return hash('sha256', secret);
}

/**
 * Decodes the stored row of a token. Returns `undefined` if it is damaged.
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
