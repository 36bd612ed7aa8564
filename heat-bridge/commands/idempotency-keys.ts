/**
 * Idempotency keys: written before anything is published, so that the same request again is the
 * same run, also after a crash. A key belongs to a caller, a project and a command or plan.
 */

import { createHash } from 'node:crypto';
import Type from 'typebox';
import type { SharedArea, StateOperation } from '#master';
import { writeJson } from '#runtime';
import type { RowCodec } from '#store';
import { BridgeError } from '../errors.ts';

/** Whose key it is, and for what. */
export const IdempotencyKeyOwner = Type.Object({
  caller: Type.String(),
  project: Type.String(),
  /** The name of a command, or what no command is called. */
  command: Type.String(),
  key: Type.String(),
});
export type IdempotencyKeyOwner = Readonly<Type.Static<typeof IdempotencyKeyOwner>>;

/** What is kept under a key. */
interface StoredRequest {
  /** Of the parameters and the target. */
  readonly digest: string;
}

/** How long a key is kept after its deadline, milliseconds. */
const keyRetentionMs = 86_400_000;
const maxBytes = 1_048_576;
const maxKey = 255;

/** Keys of runs in the store, sealed. */
export class IdempotencyKeys<T extends StoredRequest> {
  readonly #state: SharedArea;
  readonly #row: RowCodec<T>;
  readonly #shorten: (kept: T) => T;

  /** @param shorten - leaves out what makes a row larger than 1 MiB */
  constructor(state: SharedArea, row: RowCodec<T>, shorten: (kept: T) => T) {
    this.#state = state;
    this.#row = row;
    this.#shorten = shorten;
  }

  /** @throws BridgeError ERR_COMMAND_KEY where it was used for something else */
  async find(owner: IdempotencyKeyOwner, digest: string): Promise<T | undefined> {
    const kept = await this.get(owner);
    if (kept === undefined) return undefined;
    if (kept.digest === digest) return kept;
    const text = 'the idempotency key was used before, for other parameters or another target';
    throw new BridgeError('ERR_COMMAND_KEY', `${owner.command}: ${text}`);
  }

  /** What is kept under a key, whatever it was used for. */
  async get(owner: IdempotencyKeyOwner): Promise<T | undefined> {
    const entry = await this.#state.get(storeKeyOf(owner));
    return entry && this.#row.decode({ ...entry, value: this.#state.unseal(entry.value) });
  }

  /**
   * Durable when it resolves; in the place of what was kept under the key.
   * @param deadline milliseconds since 1970
   * @param besides - done in the same transaction
   * @throws StoreError ERR_REVISION by what is done besides
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
   * As {@link keep}, for a key that was not used before.
   * @throws StoreError ERR_REVISION where another member of the cluster has used it meanwhile
   */
  async keepFirst(
    owner: IdempotencyKeyOwner,
    kept: T,
    deadline: number,
    besides: readonly StateOperation[] = [],
  ): Promise<void> {
    const put = this.#put(owner, kept, deadline);
    const first = this.#state.cluster === undefined ? put : { ...put, ifRevision: 0 };
    await this.#state.write([first, ...besides]);
  }

  #put(
    owner: IdempotencyKeyOwner,
    kept: T,
    deadline: number,
  ): StateOperation & { readonly op: 'put' } {
    const bytes = this.#row.encode(kept);
    const isShort = bytes.length <= maxBytes;
    const value = this.#state.seal(isShort ? bytes : this.#row.encode(this.#shorten(kept)));
    const expiresAt = deadline + keyRetentionMs;
    return { op: 'put', key: storeKeyOf(owner), value, expiresAt };
  }
}

/** @throws BridgeError ERR_COMMAND_KEY */
export function checkIdempotencyKey(key: string): string {
  if (key.length > 0 && key.length <= maxKey) return key;
  throw new BridgeError('ERR_COMMAND_KEY', `an idempotency key has 1 to ${maxKey} characters`);
}

function storeKeyOf({ caller, project, command, key }: IdempotencyKeyOwner): readonly string[] {
  return ['keys', jsonDigest([caller, project, command, key])];
}

/** Of JSON, whatever the order of its keys. */
export function jsonDigest(value: unknown): string {
  return createHash('sha256')
    .update(writeJson(sorted(value)))
    .digest('hex');
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([key, inner]) => [key, sorted(inner)]);
}
