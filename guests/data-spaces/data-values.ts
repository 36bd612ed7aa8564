/** Values of data spaces: permissions, quotas and waiting reads. */

import { BridgeError } from '#heat-bridge';
import { findInterpretedText } from '#minion-protocol';
import {
  Budget,
  KeyedMutex,
  releaseAll,
  sleepUntilAborted,
  tryTakeAll,
  unlimitedSteps,
  WorkBudget,
} from '#runtime';
import { guestLimits } from '../limits.ts';
import { type CoordinatedValue, type Coordinator, unavailableError } from './coordinator.ts';
import type { DataSpace, DataSpaces, Membership } from './data-spaces.ts';
import { readersByKey, readKeys, splitKey, writtenKeys } from './roles.ts';

/** Maximum size of a value, in bytes of UTF-8. */
const maxValueBytes = 65_536;

/** Value in the form in which a guest receives it. */
export interface DataValue {
  readonly key: string;
  readonly value: string;
  readonly version: number;
}

/** Result of a write. */
export interface DataReceipt {
  readonly key: string;
  /** Version of the value, or 0 if the value was not stored because no role reads it. */
  readonly version: number;
}

/** Additional checks of a read or write. */
export interface DataChecks {
  /**
   * Called after each wait. Throws if the rules no longer permit the read or write, because they can
   * change in the meantime.
   */
  readonly requirePermission?: (() => void) | undefined;
}

/** Guest that reads a value. */
export interface DataReader extends DataChecks {
  /** Authenticated minion id. */
  readonly minion: string;
  /** Whether the response to this guest is encrypted so that no other guest can read it. */
  readonly isPrivate: boolean;
}

export interface ReadRequest {
  readonly key: string;
  /** Maximum time to wait until the value is written, in milliseconds. */
  readonly waitMs: number;
  /**
   * Version that the reader already has. Earlier versions, and this version itself, are not
   * returned. Default: 0.
   */
  readonly after?: number;
}

/** Values that one role reads, as far as guests have already written them. */
export interface Attributes {
  /** Values, by the names that the reading role uses for them. */
  readonly values: ReadonlyMap<string, DataValue>;
  /**
   * Whether some values are omitted, because all values together exceed the limit
   * `pillarValueBytes`.
   */
  readonly isTruncated: boolean;
}

const noAttributes: Attributes = { values: new Map(), isTruncated: false };
const { perOwner: maxPillarBytes = Infinity } = guestLimits.pillarValueBytes;
/** Number of values that are read at a time for one pillar. */
const readsAtOnce = 16;
/**
 * Number of steps that a {@link WorkBudget} counts for each value that is read. Each character of
 * the value counts as one more step.
 */
const stepsPerRead = 1_000;

export interface DataValuesOptions {
  readonly spaces: DataSpaces;
  readonly coordinator: Coordinator;
  readonly seal: (plain: Uint8Array) => Uint8Array;
  readonly unseal: (sealed: Uint8Array) => Uint8Array;
  readonly bytesPerStack: number;
  /** Whether other cluster members write values too. */
  readonly isShared: boolean;
  /**
   * Describes the state of a minion, for example `connected`, for the error message of a read that
   * timed out.
   */
  readonly describeMinion: (id: string) => Promise<string>;
  /** Aborted when the bridge closes. */
  readonly closing: AbortSignal;
}

/** Delay before a waiting read repeats a request to an unavailable server, in milliseconds. */
const awayRetryMs = 2_000;
/**
 * Maximum age of the known sizes of values, in milliseconds. Older sizes are read again. Applies
 * only if other cluster members write values too.
 */
const sharedSizesMs = 10_000;

/** Sizes of the values of a space, in bytes, by key. */
interface KnownSizes {
  readonly sizes: Map<string, number>;
  /** Time of the read, as `performance.now()` returned it. */
  readonly readAt: number;
}

export class DataValues {
  readonly #options: DataValuesOptions;
  readonly #writes = new KeyedMutex();
  readonly #waiting = new Budget(guestLimits.waitingReads);
  readonly #waitingOfProjects = new Budget(guestLimits.waitingProjectReads);
  readonly #sizes = new Map<string, KnownSizes>();

  constructor(options: DataValuesOptions) {
    this.#options = options;
  }

  /**
   * Returns a value that the minion's role reads, as soon as it is written. A read continues to
   * wait if the server becomes unavailable.
   * @throws BridgeError ERR_DATA_UNKNOWN, ERR_DATA_DENIED, ERR_DATA_BUSY, ERR_DATA_TIMEOUT,
   * ERR_DATA_ALTERED, ERR_DATA_UNAVAILABLE; ERR_DATA_VALUE if Salt would interpret the stored value
   */
  async read(reader: DataReader, { key, waitMs, after = 0 }: ReadRequest): Promise<DataValue> {
    const space = this.#readableSpace(reader, key);
    const known = await this.#current(space, key, after).catch((error: unknown) => {
      if (waitMs > 0 && isUnavailable(error)) return undefined;
      throw error;
    });
    if (known !== undefined) return known;
    const places = [
      { budget: this.#waiting, owner: reader.minion, amount: 1 },
      { budget: this.#waitingOfProjects, owner: space.owner ?? space.id, amount: 1 },
    ];
    if (tryTakeAll(places) !== undefined) {
      throw new BridgeError('ERR_DATA_BUSY', 'too many reads already wait for values; retry later');
    }
    try {
      const found = await this.#wait(reader, { key, waitMs, after });
      if (found !== undefined) return found;
    } finally {
      releaseAll(places);
    }
    throw await this.#timeoutError(this.#readableSpace(reader, key), key);
  }

  /**
   * Writes a value of the minion's role. Resolves when the value is durable. If the value is
   * unchanged, nothing is written. After ERR_DATA_UNAVAILABLE, the value may have been written;
   * repeating the write is safe.
   * @throws BridgeError ERR_DATA_UNKNOWN, ERR_DATA_DENIED, ERR_DATA_VALUE, ERR_DATA_WRITTEN,
   * ERR_DATA_QUOTA, ERR_DATA_ALTERED, ERR_DATA_UNAVAILABLE; and the error of the check
   */
  async write(
    minion: string,
    key: string,
    value: string,
    { requirePermission }: DataChecks = {},
  ): Promise<DataReceipt> {
    const { space } = this.#membershipOf(minion);
    const bytes = Buffer.from(value);
    if (bytes.length > maxValueBytes || /\p{Surrogate}/u.test(value)) {
      const text = `${describeKey(key)}: must be text of at most ${maxValueBytes} bytes`;
      throw new BridgeError('ERR_DATA_VALUE', text);
    }
    requireInert(key, value);
    return this.#writes.run(space.id, async () => {
      // The policy and the minion's role may have changed while this write waited.
      requirePermission?.();
      const current = this.#membershipOf(minion);
      this.#requireWritable(current, key);
      if (!readersByKey(current.space.roles).has(key)) return { key, version: 0 };
      return this.#write(current.space, key, bytes);
    });
  }

  /** Returns the sizes of the written values, in bytes, by key. */
  async list(space: DataSpace): Promise<ReadonlyMap<string, number>> {
    return this.#options.coordinator.sizes(space.id);
  }

  /**
   * Returns the values that the minion's role reads and that were already written, by attribute.
   * Values that another program wrote, and values that Salt would interpret, are omitted. Returns
   * no values if an external server is unavailable. Reads each value once, even if several
   * attributes name it.
   * @param isPermitted - whether the minion may read the value with this key
   */
  async attributesOf(
    { space, role }: Membership,
    isPermitted: (key: string) => boolean,
  ): Promise<Attributes> {
    if (this.#options.coordinator.isConnected?.() === false) return noAttributes;
    const { reads = {} } = space.roles[role] ?? {};
    try {
      const known = await this.#firstValues(space, Object.values(reads), isPermitted);
      return attributesIn(reads, known);
    } catch (error) {
      if (isUnavailable(error)) return noAttributes;
      throw error;
    }
  }

  /**
   * Reads the values of the keys, in the order of the keys. Stops when the total size exceeds the
   * limit `pillarValueBytes`. The result for a key is `undefined` if the minion may not read the
   * key, or if the key has no usable value.
   */
  async #firstValues(
    space: DataSpace,
    keys: readonly string[],
    isPermitted: (key: string) => boolean,
  ): Promise<ReadonlyMap<string, DataValue | undefined>> {
    const work = new WorkBudget(unlimitedSteps);
    const known = new Map<string, DataValue | undefined>();
    const left = [...new Set(keys)];
    let bytes = 0;
    for (let start = 0; start < left.length && bytes <= maxPillarBytes; start += readsAtOnce) {
      const batch = left.slice(start, start + readsAtOnce);
      const values = await Promise.all(
        batch.map((key) => (isPermitted(key) ? this.#usable(space, key) : undefined)),
      );
      for (const [at, key] of batch.entries()) {
        const value = values[at];
        known.set(key, value);
        bytes += Buffer.byteLength(value?.value ?? '');
        work.spend('values of a data space', stepsPerRead + (value?.value.length ?? 0));
      }
      if (work.isSliceOver) await work.giveWay();
    }
    return known;
  }

  /**
   * Returns the written value of a key. Returns `undefined` if the value has not been written, if
   * another program has written it, or if it contains text that Salt would interpret, for example
   * `__slot__:`.
   */
  async #usable(space: DataSpace, key: string): Promise<DataValue | undefined> {
    try {
      return await this.#current(space, key, 0);
    } catch (error) {
      if (isCode(error, 'ERR_DATA_ALTERED') || isCode(error, 'ERR_DATA_VALUE')) return undefined;
      throw error;
    }
  }

  /** Deletes the values of a space. */
  forget(space: string): Promise<void> {
    return this.#writes.run(space, () => this.#forget(space));
  }

  async #forget(space: string): Promise<void> {
    this.#sizes.delete(space);
    await this.#options.coordinator.remove(space);
  }

  #membershipOf(minion: string): Membership {
    const membership = this.#options.spaces.membershipOf(minion);
    if (membership === undefined) throw noSpaceError();
    return membership;
  }

  /**
   * Checks that a reader may read a value, and returns the data space of the reader.
   * @throws BridgeError ERR_DATA_UNKNOWN if the minion belongs to no space; ERR_DATA_DENIED if its
   * role does not read the value, or if the value is secret and the response is not private; and
   * the error of the check
   */
  #readableSpace({ minion, isPrivate, requirePermission }: DataReader, key: string): DataSpace {
    requirePermission?.();
    const { space, role } = this.#membershipOf(minion);
    const declared = writtenKeys(space.roles).get(key);
    const isGranted = readKeys(space.roles[role] ?? {}).has(key);
    if (declared === undefined || !isGranted) {
      const text = `the role ${role} of the minion does not declare that it reads ${describeKey(key)}`;
      throw new BridgeError('ERR_DATA_DENIED', text);
    }
    if (declared.secret === true && !isPrivate) {
      const text = `the value ${key} is secret; read it with minion protocol 3 or over HTTPS`;
      throw new BridgeError('ERR_DATA_DENIED', text);
    }
    return space;
  }

  #requireWritable({ space, role }: Membership, key: string): void {
    if (writtenKeys(space.roles).has(key) && splitKey(key).role === role) return;
    const text = `the role ${role} of the minion does not declare that it writes ${describeKey(key)}`;
    throw new BridgeError('ERR_DATA_DENIED', text);
  }

  async #write(space: DataSpace, key: string, value: Buffer): Promise<DataReceipt> {
    const { coordinator, seal, spaces, bytesPerStack } = this.#options;
    const declared = writtenKeys(space.roles).get(key);
    const known = await coordinator.get(space.id, key);
    if (known !== undefined && value.equals(this.#open(known))) {
      return { key, version: known.version };
    }
    if (known !== undefined && declared?.versioned !== true) {
      throw new BridgeError(
        'ERR_DATA_WRITTEN',
        `the value ${key} has already been written; to permit further writes, declare it with \`versioned: true\``,
      );
    }
    const isSecret = declared?.secret === true;
    const kept = isSecret ? seal(value) : value;
    const row = Buffer.concat([Uint8Array.of(isSecret ? 1 : 0), kept]);
    const stored = await this.#sizesOf(space.id);
    const { sizes } = stored;
    const held = [...sizes.values()].reduce((sum, size) => sum + size, 0);
    if (held - (sizes.get(key) ?? 0) + row.length > bytesPerStack) {
      const text = `cannot write ${key}: the values of the stack would exceed ${bytesPerStack} bytes (option bytes_per_stack)`;
      throw new BridgeError('ERR_DATA_QUOTA', text);
    }
    const version = (known?.version ?? 0) + 1;
    // If the write fails, its effect is unknown, so the sizes must be read again.
    this.#sizes.delete(space.id);
    const isWritten = await coordinator.put(space.id, key, { value: row, version });
    // If the same request was sent twice, the first request has already written the value.
    if (isWritten || (await this.#isThere(space, key, value))) {
      sizes.set(key, row.length);
      this.#sizes.set(space.id, stored);
      // Another cluster member may have removed the space in the meantime.
      if (!spaces.has(space.id)) await this.#forget(space.id);
      return { key, version };
    }
    throw new BridgeError(
      'ERR_DATA_WRITTEN',
      `cannot write ${key}: other requests wrote it at the same time`,
    );
  }

  async #isThere(space: DataSpace, key: string, value: Buffer): Promise<boolean> {
    const found = await this.#options.coordinator.get(space.id, key);
    return found !== undefined && value.equals(this.#open(found));
  }

  /**
   * Returns the sizes of the values in a space, from a cache if possible. If other cluster members
   * write values too, cached sizes are used for 10 seconds only.
   */
  async #sizesOf(space: string): Promise<KnownSizes> {
    const { coordinator, isShared } = this.#options;
    const known = this.#sizes.get(space);
    const isOld = isShared && performance.now() - (known?.readAt ?? 0) > sharedSizesMs;
    if (known !== undefined && !isOld) return known;
    const readAt = performance.now();
    const fresh = { sizes: new Map(await coordinator.sizes(space)), readAt };
    this.#sizes.set(space, fresh);
    return fresh;
  }

  async #current(space: DataSpace, key: string, after: number): Promise<DataValue | undefined> {
    const known = await this.#options.coordinator.get(space.id, key);
    if (known === undefined || known.version <= after) return undefined;
    const value = this.#open(known).toString('utf8');
    requireInert(key, value);
    return { key, value, version: known.version };
  }

  /**
   * Returns the stored value if its version is later than `after`, otherwise `undefined`.
   * @throws BridgeError ERR_DATA_UNAVAILABLE, without a request to the server if it is known to be
   * disconnected; ERR_DATA_ALTERED, ERR_DATA_VALUE
   */
  async #currentIfConnected(
    space: DataSpace,
    key: string,
    after: number,
  ): Promise<DataValue | undefined> {
    if (this.#options.coordinator.isConnected?.() === false) {
      throw unavailableError(new Error('not connected'));
    }
    return this.#current(space, key, after);
  }

  #open({ value }: CoordinatedValue): Buffer {
    const kept = value.subarray(1);
    return Buffer.from(value[0] === 1 ? this.#options.unseal(kept) : kept);
  }

  async #wait(
    reader: DataReader,
    { key, waitMs, after }: Required<ReadRequest>,
  ): Promise<DataValue | undefined> {
    const { coordinator, closing } = this.#options;
    const end = performance.now() + waitMs;
    for (;;) {
      // The permissions of the reader can change while it waits.
      const space = this.#readableSpace(reader, key);
      const changed = new AbortController();
      const stop = coordinator.watch(space.id, key, () => changed.abort());
      try {
        let away: unknown;
        const found = await this.#currentIfConnected(space, key, after).catch((error: unknown) => {
          if (!isUnavailable(error)) throw error;
          away = error;
          return undefined;
        });
        if (found !== undefined) return found;
        const left = end - performance.now();
        if (away !== undefined && left <= 0) throw away;
        if (left <= 0 || closing.aborted) return undefined;
        const pause = away === undefined ? left : Math.min(left, awayRetryMs);
        await sleepUntilAborted(pause, closing, changed.signal);
      } finally {
        stop();
      }
    }
  }

  async #timeoutError(space: DataSpace, key: string): Promise<BridgeError> {
    const { role } = splitKey(key);
    const minions = this.#options.spaces.minionsOf(space, role);
    const who = await Promise.all(
      minions.map(async (id) => `minion ${id} (${await this.#options.describeMinion(id)})`),
    );
    const writers = who.length === 0 ? 'no minion has this role' : who.join(', ');
    const text = `the value ${key} has not been written yet by the role ${role}: ${writers}`;
    return new BridgeError('ERR_DATA_TIMEOUT', text);
  }
}

/**
 * Returns the values of the attributes that a role reads. If their total size would exceed the
 * limit `pillarValueBytes`, omits the last ones, and sets `isTruncated`.
 * @param reads - key of the value for each attribute
 * @param known - values that were read, by key
 */
function attributesIn(
  reads: Readonly<Record<string, string>>,
  known: ReadonlyMap<string, DataValue | undefined>,
): Attributes {
  const values = new Map<string, DataValue>();
  let bytes = 0;
  for (const [attribute, key] of Object.entries(reads)) {
    const value = known.get(key);
    bytes += Buffer.byteLength(value?.value ?? '');
    if (!known.has(key) || bytes > maxPillarBytes) return { values, isTruncated: true };
    if (value !== undefined) values.set(attribute, value);
  }
  return { values, isTruncated: false };
}

/**
 * Rejects a value that Salt would interpret, for example `__slot__:` or `sdb://`. Minions that read
 * the value use it in their states.
 * @throws BridgeError ERR_DATA_VALUE
 */
function requireInert(key: string, value: string): void {
  const interpreted = findInterpretedText(value);
  if (interpreted === undefined) return;
  throw new BridgeError('ERR_DATA_VALUE', `${describeKey(key)}: the value ${interpreted.expected}`);
}

function isUnavailable(error: unknown): boolean {
  return isCode(error, 'ERR_DATA_UNAVAILABLE');
}

function isCode(error: unknown, code: BridgeError['code']): boolean {
  return error instanceof BridgeError && error.code === code;
}

/** Quotes a key from a guest for an error message, truncated to 200 characters. */
function describeKey(key: string): string {
  return JSON.stringify(key.slice(0, 200));
}

function noSpaceError(): BridgeError {
  return new BridgeError(
    'ERR_DATA_UNKNOWN',
    'the minion belongs to no data space; register it in a role of one',
  );
}
