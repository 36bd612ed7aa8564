/**
 * Idempotency keys. A key is stored before a run is published, so that a repeated request returns
 * the same run, even after a crash. The same key can be used again by another caller, for another
 * project, or for another command or plan.
 */

import { hash } from 'node:crypto';
import Type from 'typebox';
import type { SharedArea, StateOperation } from '#master';
import { isLargerThan, LimitExceeded, TokenBuckets, writeJson } from '#runtime';
import type { RowCodec } from '#store';
import { BridgeError } from '../errors.ts';
import { bridgeLimits } from '../limits.ts';

/** Idempotency key, with the caller, the project and the command or plan for which it is valid. */
export const IdempotencyKeyOwner = Type.Object({
  caller: Type.String(),
  project: Type.String(),
  /**
   * Name of the command. For plans and their steps, a text that begins with `plan:`. For runs that
   * the caller started without a key, a text that begins with `run:`. No command name contains a
   * colon, so no command name equals one of these texts.
   */
  command: Type.String(),
  key: Type.String(),
});
export type IdempotencyKeyOwner = Readonly<Type.Static<typeof IdempotencyKeyOwner>>;

/** Stored row of an idempotency key. */
interface StoredRequest {
  /**
   * Digest of the parameters and the target. If a later request with this key has another digest,
   * the request is rejected.
   */
  readonly digest: string;
}

/** Time for which an idempotency key is stored after the deadline of its run, in milliseconds. */
const keyRetentionMs = 86_400_000;
const maxBytes = 1_048_576;
const maxKey = 255;
/**
 * Maximum numbers of values and characters of a row. A larger row is shortened before it is
 * encoded. Encoding more values would block the event loop, and more characters cannot be stored.
 */
const maxEncoded = { values: 100_000, characters: maxBytes } as const;

/** Store of idempotency keys. Their rows are encrypted. */
export class IdempotencyKeys<T extends StoredRequest> {
  readonly #state: SharedArea;
  readonly #row: RowCodec<T>;
  readonly #shorten: (kept: T) => T;
  readonly #bytes: TokenBuckets;

  /**
   * Creates the store of keys.
   * @param shorten - returns a smaller form of a row. Called if the row exceeds 1 MiB or 100,000
   * values, or if its caller exceeds the rate limit `bytes`
   * @param bytes - token buckets that limit how many bytes each caller may store in a period.
   * Default: buckets with the limit `bridgeLimits.keyBytes`
   */
  constructor(
    state: SharedArea,
    row: RowCodec<T>,
    shorten: (kept: T) => T,
    bytes: TokenBuckets = new TokenBuckets(bridgeLimits.keyBytes),
  ) {
    this.#state = state;
    this.#row = row;
    this.#shorten = shorten;
    this.#bytes = bytes;
  }

  /**
   * Returns the row of a key, or `undefined`.
   * @throws BridgeError ERR_COMMAND_KEY if the key was used for another request
   */
  async find(owner: IdempotencyKeyOwner, digest: string): Promise<T | undefined> {
    const kept = await this.get(owner);
    if (kept === undefined) return undefined;
    if (kept.digest === digest) return kept;
    const text = 'the idempotency key was used before with other parameters or another target';
    throw new BridgeError('ERR_COMMAND_KEY', `${owner.command}: ${text}`);
  }

  /** Returns the row of a key, without a check whether the key was used for the same request. */
  async get(owner: IdempotencyKeyOwner): Promise<T | undefined> {
    const entry = await this.#state.get(storeKeyOf(owner));
    return entry && this.#row.decode({ ...entry, value: this.#state.unseal(entry.value) });
  }

  /**
   * Stores the data of a run under its idempotency key, and replaces earlier data of the same key.
   * Resolves when the data is durable.
   * @param deadline - deadline of the run, in milliseconds since 1970
   * @param besides - further operations for the same transaction
   * @throws StoreError ERR_REVISION if a condition in `besides` fails
   */
  async keep(
    owner: IdempotencyKeyOwner,
    kept: T,
    deadline: number,
    besides: readonly StateOperation[] = [],
  ): Promise<void> {
    await this.#state.write([this.#put(owner, kept, deadline), ...besides]);
  }

  /**
   * Stores a row under a key that was not used before. Resolves when the row is durable.
   * @throws StoreError ERR_REVISION if another member of the cluster has used the key meanwhile;
   * LimitExceeded if the caller stores too many bytes
   */
  async keepFirst(
    owner: IdempotencyKeyOwner,
    kept: T,
    deadline: number,
    besides: readonly StateOperation[] = [],
  ): Promise<void> {
    if (!this.#bytes.has(owner.caller)) {
      throw new LimitExceeded(bridgeLimits.keyBytes);
    }
    const put = this.#put(owner, kept, deadline);
    const first = this.#state.cluster === undefined ? put : { ...put, ifRevision: 0 };
    await this.#state.write([first, ...besides]);
  }

  #put(
    owner: IdempotencyKeyOwner,
    kept: T,
    deadline: number,
  ): StateOperation & { readonly op: 'put' } {
    const mayFit = this.#bytes.has(owner.caller) && !isLargerThan(kept, maxEncoded);
    const bytes = mayFit ? this.#row.encode(kept) : undefined;
    const isShort = bytes !== undefined && bytes.length <= maxBytes;
    const value = this.#state.seal(isShort ? bytes : this.#row.encode(this.#shorten(kept)));
    this.#bytes.take(owner.caller, value.length);
    const expiresAt = deadline + keyRetentionMs;
    return { op: 'put', key: storeKeyOf(owner), value, expiresAt };
  }
}

/**
 * Returns the given idempotency key if it has 1 to 255 characters.
 * @throws BridgeError ERR_COMMAND_KEY if it does not
 */
export function checkIdempotencyKey(key: string): string {
  if (key.length > 0 && key.length <= maxKey) return key;
  throw new BridgeError(
    'ERR_COMMAND_KEY',
    `an idempotency key must have 1 to ${maxKey} characters`,
  );
}

function storeKeyOf({ caller, project, command, key }: IdempotencyKeyOwner): readonly string[] {
  return ['keys', jsonDigest([caller, project, command, key])];
}

/** Returns the SHA-256 of a JSON value. The order of keys in objects does not affect it. */
export function jsonDigest(value: unknown): string {
  return hash('sha256', writeJson(sorted(value)));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([key, inner]) => [key, sorted(inner)]);
}
