/** Tokens of users who logged in: 256 random bits, of which only the digest is kept. */

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

/** Rows `tokens/<SHA-256>`. */
const tokenRow = defineRow({
  name: 'token',
  schema: Type.Object({
    user: Type.String(),
    eauth: Type.String(),
    groups: Texts,
    /** Milliseconds since 1970. */
    start: Type.Number(),
    /** Milliseconds since 1970. */
    expire: Type.Number(),
    /** `keep_acl_in_token`: what `external_auth` granted at the log-in. */
    rights: Type.Optional(Type.Unsafe<readonly unknown[]>(Type.Array(Type.Unknown()))),
  }),
  packed: { rights: jsonField },
  unversioned: fromJson,
});

/** A token as it is kept: everything but the token. */
export type TokenRecord = RowOf<typeof tokenRow>;

/** A token that is known. */
export interface KnownToken extends TokenRecord {
  /** Its SHA-256, hexadecimal. */
  readonly hash: string;
}

/** The clocks that tokens end by. */
export interface TokenClocks {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Milliseconds of a clock that only goes forward. */
  readonly monotonic: () => number;
}

interface Held {
  readonly token: KnownToken;
  /** By the monotonic clock: turning back the other one makes no token last longer. */
  readonly endsAt: number;
}

const prefix: Key = ['tokens'];
const form = /^[0-9a-f]{64}$/;

/** Tokens that are valid at the same time; the oldest go first. */
const maxTokens = 100_000;

/**
 * The tokens of a master, in its store and by heart: what is revoked is gone for everybody at
 * once, and a look-up reads nothing. One ends by whichever clock comes first.
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

  /** @param cluster - whose members share them. Default: none */
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
      // One of the future: the clock was turned back while no master ran, so nobody knows its age.
      if (record === undefined || record.start > clocks.now()) broken.push(hash);
      else known.push({ ...record, hash });
    }
    for (const token of known.sort((a, b) => a.start - b.start)) table.#hold(token);
    await table.#delete(broken);
    await table.sweep();
    return table;
  }

  /** Makes a token; durable when it resolves. Nobody can be told it again. */
  async create(record: TokenRecord): Promise<{ readonly secret: string; readonly hash: string }> {
    const secret = randomBytes(32).toString('hex');
    const token = { ...record, hash: digest(secret) };
    await this.#put(token);
    this.#hold(token);
    if (this.#held.size > maxTokens) await this.#forgetOldest();
    return { secret, hash: token.hash };
  }

  /** The token, if it is valid. Anything may be asked about; what has no form of one is none. */
  find(secret: unknown): KnownToken | undefined {
    if (typeof secret !== 'string' || !form.test(secret)) return undefined;
    return this.get(digest(secret));
  }

  /** Deletes this one if its time is over, so that no clock brings it back [THREATS C-25]. */
  async dropExpired(secret: unknown): Promise<void> {
    if (typeof secret !== 'string' || !form.test(secret)) return;
    const held = this.#held.get(digest(secret));
    if (held !== undefined && this.#isOver(held)) await this.revoke([held.token.hash]);
  }

  /** That of a digest, if it is valid. */
  get(hash: string): KnownToken | undefined {
    if (this.#isStale()) return undefined;
    const held = this.#held.get(hash);
    return held === undefined || this.#isOver(held) ? undefined : held.token;
  }

  /** Takes over what else its user's groups are now. */
  async setGroups(hash: string, groups: readonly string[]): Promise<void> {
    const held = this.#held.get(hash);
    if (held === undefined) return;
    const token = { ...held.token, groups: [...groups] };
    this.#held.set(hash, { ...held, token });
    await this.#put(token);
  }

  /** Those that are valid, the oldest first. */
  list(): KnownToken[] {
    return [...this.#held.values()].filter((held) => !this.#isOver(held)).map(({ token }) => token);
  }

  /** Ends tokens: for everybody at once, for good when it resolves. */
  async revoke(hashes: readonly string[]): Promise<void> {
    await this.#delete(hashes.filter((hash) => this.#held.delete(hash)));
  }

  /** Deletes the expired ones, so that no clock brings them back. @returns which they were */
  async sweep(): Promise<readonly string[]> {
    const over = [...this.#held].filter(([, held]) => this.#isOver(held)).map(([hash]) => hash);
    await this.revoke(over);
    return over;
  }

  #hold(token: KnownToken): void {
    const { now, monotonic } = this.#clocks;
    // Never more than it was given for, whatever the clock says meanwhile.
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

/** `undefined`: the row is damaged. @throws StoreError ERR_STORE_VERSION */
function unpack(entry: Pick<Entry, 'key' | 'value'>): TokenRecord | undefined {
  try {
    return tokenRow.decode(entry);
  } catch (error) {
    if (error instanceof StoreError && error.code === 'ERR_STORE_CORRUPT') return undefined;
    throw error;
  }
}
