/** One value of a mine, as minions send it [WIRE 9.6; salt/utils/mine.py]. */

import path from 'node:path';
import type { LiveConfig } from '#config';
import {
  type Auth,
  everyone,
  type Jobs,
  type MasterContext,
  MasterError,
  type PolicyGate,
  readBounded,
  type SaltDataCache,
  type TargetReach,
  type TargetRequest,
  type TargetResolver,
  type Users,
} from '#master';
import { isWireMap, packLocal, unpackLocal, type WireMap, type WireValue } from '#minion-protocol';
import { KeyedMutex } from '#runtime';
import { type Key, type Operation, type Store, StoreError } from '#store';

/** A value, and who may read it. */
interface MineEntry {
  readonly value: WireValue;
  /** Only the minions that this means. `undefined`: whoever may read the mine at all. */
  readonly allowed: TargetRequest | undefined;
}

const mark = '__saltmine_acl__';
const noText: TargetRequest = { tgt: [], tgtType: 'list' };

/** Takes a value apart: plain, or wrapped with its readers. */
function readMineEntry(sent: WireValue): MineEntry {
  if (!isWireMap(sent) || !(mark in sent)) return { value: sent, allowed: undefined };
  const { __data__: value = null, allow_tgt: tgt, allow_tgt_type: tgtType } = sent;
  if (tgt === undefined || tgt === null || tgt === '') return { value, allowed: undefined };
  return { value, allowed: toTarget(tgt, tgtType) };
}

/** What is no target allows nobody: its owner meant to restrict. */
function toTarget(tgt: WireValue, tgtType: WireValue | undefined): TargetRequest {
  const isList = Array.isArray(tgt) && tgt.every((id) => typeof id === 'string');
  if (typeof tgt !== 'string' && !isList) return noText;
  if (tgtType === undefined || tgtType === null) return { tgt };
  return typeof tgtType === 'string' ? { tgt, tgtType: tgtType.toLowerCase() } : noText;
}

/** Functions that one request may ask for. */
const maxFunctions = 100;

/** What is asked of the mines. */
export interface MineQuery {
  readonly target: TargetRequest;
  readonly funs: readonly string[];
  /** Whether the answer is by function also when there is only one. */
  readonly isByFunction: boolean;
}

export interface MineReaderOptions {
  readonly mine: MineStore;
  readonly targets: Pick<TargetResolver, 'resolveWithin' | 'entitles' | 'matches'>;
  readonly gate: PolicyGate;
  /** `mine_trusts_grains` */
  readonly trustsGrains: boolean;
  /** `mine_reply_bytes` */
  readonly maxBytes: number;
}

/** What came of a query. */
export type MineAnswer =
  | { readonly ok: true; readonly value: WireMap; readonly isWithheld: boolean }
  | { readonly ok: false; readonly reason: 'mine-functions' | 'mine-target' | 'mine-reply-bytes' };

/** Reads mines for minions: who may have what [WIRE 9.6; THREATS M-11]. */
export class MineReader {
  readonly #options: MineReaderOptions;

  constructor(options: MineReaderOptions) {
    this.#options = options;
  }

  /** @param readerId the verified asker; `undefined`: the master itself, which may read all */
  async read(readerId: string | undefined, query: MineQuery): Promise<MineAnswer> {
    const funs = [...new Set(query.funs)];
    if (funs.length > maxFunctions) return { ok: false, reason: 'mine-functions' };
    const reading = new Reading(this.#options, readerId);
    for (const fun of funs.filter((fun) => this.#mayAsk(readerId, fun))) {
      const owners = this.#owners(query.target, this.#reach(readerId, fun));
      if (owners === undefined) return { ok: false, reason: 'mine-target' };
      for (const owner of owners) {
        if (!(await reading.take(owner, fun))) return { ok: false, reason: 'mine-reply-bytes' };
      }
    }
    const { values, isWithheld } = reading;
    const isByFunction = query.isByFunction || funs.length > 1;
    return { ok: true, value: toReply(values, isByFunction), isWithheld };
  }

  #reach(readerId: string | undefined, fun: string): TargetReach {
    if (readerId === undefined) return everyone;
    const subject = { kind: 'minion', id: readerId } as const;
    const { gate } = this.#options;
    const asked = { subject, action: 'mine', fun } as const;
    // protection: reach-of-mine
    return gate.reachToLearn(asked) ?? gate.reach(asked);
  }

  #owners(target: TargetRequest, reach: TargetReach): readonly string[] | undefined {
    try {
      return this.#options.targets.resolveWithin(target, reach);
    } catch (error) {
      if (error instanceof MasterError) return undefined;
      throw error;
    }
  }

  #mayAsk(readerId: string | undefined, fun: string): boolean {
    if (readerId === undefined) return true;
    const subject = { kind: 'minion', id: readerId } as const;
    const question = { subject, action: 'mine', resource: { fun } } as const;
    return this.#options.gate.decide(question).effect === 'allow';
  }
}

/** One request's way through the mines. */
class Reading {
  readonly values = new Map<string, Map<string, WireValue>>();
  /** Whether a rule or an owner's `allow_tgt` kept something back. */
  isWithheld = false;
  readonly #options: MineReaderOptions;
  readonly #readerId: string | undefined;
  /** Owners mostly write the same target: each is looked at once. */
  readonly #verdicts = new Map<string, boolean>();
  #bytes = 0;

  constructor(options: MineReaderOptions, readerId: string | undefined) {
    this.#options = options;
    this.#readerId = readerId;
  }

  /** @returns false when the answer is too large */
  async take(owner: string, fun: string): Promise<boolean> {
    const found = await this.#options.mine.find(owner, fun);
    if (found === undefined) return true;
    const { value, allowed } = readMineEntry(unpackLocal(found.bytes));
    if (!this.#mayRead(owner, fun, allowed)) {
      this.isWithheld = true;
      return true;
    }
    this.#bytes += found.bytes.length + owner.length;
    if (this.#bytes > this.#options.maxBytes) return false;
    const byOwner = this.values.get(fun) ?? new Map<string, WireValue>();
    this.values.set(fun, byOwner.set(owner, value));
    return true;
  }

  #mayRead(owner: string, fun: string, allowed: TargetRequest | undefined): boolean {
    const id = this.#readerId;
    if (id === undefined) return true;
    const resource = {
      fun,
      owner,
      isAllowedByOwner: () => allowed === undefined || this.#isAllowed(allowed, id),
    };
    const question = { subject: { kind: 'minion', id }, action: 'mine', resource } as const;
    return this.#options.gate.decide(question).effect === 'allow';
  }

  #isAllowed(allowed: TargetRequest, readerId: string): boolean {
    const name = JSON.stringify(allowed);
    const known = this.#verdicts.get(name);
    if (known !== undefined) return known;
    const { targets, trustsGrains } = this.#options;
    const verdict = trustsGrains
      ? targets.matches(allowed, readerId)
      : targets.entitles(allowed, readerId);
    this.#verdicts.set(name, verdict);
    return verdict;
  }
}

/** One function asked as plain text: by minion; else by function, then by minion. */
function toReply(values: Map<string, Map<string, WireValue>>, isByFunction: boolean): WireMap {
  const reply: WireMap = Object.create(null);
  for (const [fun, byOwner] of values) {
    const map: WireMap = Object.assign(Object.create(null), Object.fromEntries(byOwner));
    if (!isByFunction) return map;
    reply[fun] = map;
  }
  return reply;
}

const root = 'mine';
const markRoot = 'mine-marks';
/** Behind every other text. */
const last = '\u{10ffff}';
/** What a value costs beyond its name and itself, so that empty ones are not for nothing. */
const overheadBytes = 64;
const maxNameBytes = 256;

export interface MineStoreOptions {
  readonly store: Store;
  /** `minion_data_cache` or `enforce_mine_cache`: whether anything is kept. */
  readonly isOn: boolean;
  /** `mine_bytes`: all values of a minion with their names. */
  readonly maxBytes: number;
  /** `mine_value_bytes`: one value. */
  readonly maxValueBytes: number;
  /** How long the marks of requests are kept, milliseconds. */
  readonly keepMarksMs: number;
  readonly now: () => number;
}

/** What a minion adds to its mine. */
export interface MineUpdate {
  /** Function → value, as it was sent. */
  readonly data: WireMap;
  /** Whether what was there goes. */
  readonly clear: boolean;
}

/** One value, still packed. */
export interface PackedMineValue {
  readonly fun: string;
  readonly bytes: Uint8Array;
}

/**
 * What minions have put into their mines, each value under its function in the store. A minion
 * writes to its own only; its writes take turns, so that together they keep the bound.
 */
export class MineStore {
  readonly #options: MineStoreOptions;
  readonly #mutex = new KeyedMutex();

  constructor(options: MineStoreOptions) {
    this.#options = options;
  }

  /**
   * Puts values into a minion's mine; on disk when it resolves.
   * @param mark of the request: the same one again changes nothing
   * @returns names that were left out, because they or the whole mine would be too large
   */
  async update(
    minionId: string,
    update: MineUpdate,
    mark: string | undefined,
  ): Promise<readonly string[]> {
    if (!this.#options.isOn) return [];
    return this.#mutex.run(minionId, () => this.#update(minionId, update, mark));
  }

  /** Takes one function out of a minion's mine. */
  async delete(minionId: string, fun: string, mark: string | undefined): Promise<void> {
    if (!isName(fun)) return;
    await this.#mutex.run(minionId, () =>
      this.#write(minionId, [{ op: 'delete', key: [root, minionId, fun] }], mark),
    );
  }

  /** Empties a minion's mine. */
  async flush(minionId: string, mark?: string): Promise<void> {
    await this.#mutex.run(minionId, () =>
      this.#write(minionId, [{ op: 'delete-prefix', prefix: [root, minionId] }], mark),
    );
  }

  /** A minion's value for a function, still packed. */
  async find(minionId: string, fun: string): Promise<PackedMineValue | undefined> {
    if (!isName(fun)) return undefined;
    const entry = await this.#options.store.get([root, minionId, fun]);
    return entry && { fun, bytes: entry.value };
  }

  /** All of a minion's mine, as it was sent. */
  async all(minionId: string): Promise<WireMap> {
    const mine: WireMap = Object.create(null);
    for await (const { key, value } of this.#options.store.list([root, minionId])) {
      mine[key.at(-1) ?? ''] = unpackLocal(value);
    }
    return mine;
  }

  /** Forgets a minion altogether: its key is gone. */
  async forget(minionId: string): Promise<void> {
    await this.#mutex.run(minionId, async () => {
      await this.#options.store.write([
        { op: 'delete-prefix', prefix: [root, minionId] },
        { op: 'delete-prefix', prefix: [markRoot, minionId] },
      ]);
    });
  }

  /** The minions that have something in their mine. */
  async *owners(): AsyncIterableIterator<string> {
    for (let after: Key | undefined; ; ) {
      const [owner] = await this.#first(after);
      if (owner === undefined) return;
      yield owner;
      after = [root, owner, last];
    }
  }

  async #first(after: Key | undefined): Promise<string[]> {
    const options = { limit: 1, ...(after === undefined ? {} : { after }) };
    const owners: string[] = [];
    for await (const { key } of this.#options.store.list([root], options))
      owners.push(key[1] ?? '');
    return owners;
  }

  async #update(
    minionId: string,
    { data, clear }: MineUpdate,
    mark: string | undefined,
  ): Promise<readonly string[]> {
    const { maxBytes, maxValueBytes } = this.#options;
    const sizes = clear ? new Map<string, number>() : await this.#sizes(minionId);
    let total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
    const operations: Operation[] = [];
    const leftOut: string[] = [];
    if (clear) operations.push({ op: 'delete-prefix', prefix: [root, minionId] });
    for (const [fun, value] of Object.entries(data)) {
      const bytes = packLocal(value);
      const grown = total - (sizes.get(fun) ?? 0) + sizeOf(fun, bytes);
      if (!isName(fun) || bytes.length > maxValueBytes || grown > maxBytes) {
        leftOut.push(fun);
        continue;
      }
      total = grown;
      operations.push({ op: 'put', key: [root, minionId, fun], value: bytes });
    }
    await this.#write(minionId, operations, mark);
    return leftOut;
  }

  async #sizes(minionId: string): Promise<Map<string, number>> {
    const sizes = new Map<string, number>();
    for await (const { key, value } of this.#options.store.list([root, minionId])) {
      const fun = key.at(-1) ?? '';
      sizes.set(fun, sizeOf(fun, value));
    }
    return sizes;
  }

  /** The mark goes with the change, so that a crash forgets neither. */
  async #write(
    minionId: string,
    operations: readonly Operation[],
    mark: string | undefined,
  ): Promise<void> {
    const marks: Operation[] = mark === undefined ? [] : [this.#putMark(minionId, mark)];
    if (operations.length === 0) return;
    try {
      await this.#options.store.write([...operations, ...marks]);
    } catch (error) {
      const isRepeated = error instanceof StoreError && error.code === 'ERR_REVISION';
      if (!isRepeated) throw error;
    }
  }

  #putMark(minionId: string, mark: string): Operation {
    const { now, keepMarksMs } = this.#options;
    const key = [markRoot, minionId, mark];
    const expiresAt = now() + keepMarksMs;
    return { op: 'put', key, value: new Uint8Array(0), expiresAt, ifRevision: 0 };
  }
}

function sizeOf(fun: string, bytes: Uint8Array): number {
  return overheadBytes + Buffer.byteLength(fun) + bytes.length;
}

/** Whether text can be the name of a value. */
function isName(fun: string): boolean {
  const size = Buffer.byteLength(fun);
  return size > 0 && size <= maxNameBytes && !/\p{Surrogate}/u.test(fun) && fun !== last;
}

// Import of a salt-master's mine [salt/cache/localfs.py].

/** Says that it was done: what minions take out later must not come back. */
const doneKey: Key = ['mine-taken-over'];

/**
 * Takes mines over from `<cachedir>/minions/<id>/mine.p`, once: minions fill theirs again after
 * `mine_interval` only, an hour unless set. A file that cannot be read is named in a warning.
 * @returns how many were taken over
 */
export async function takeOverMines(
  mine: MineStore,
  store: Store,
  cache: SaltDataCache,
): Promise<number> {
  if ((await store.get(doneKey)) !== undefined) return 0;
  let count = 0;
  for (const id of cache.ids) if (await takeOver(mine, id, cache)) count += 1;
  await store.write([{ op: 'put', key: doneKey, value: new Uint8Array(0) }]);
  return count;
}

async function takeOver(mine: MineStore, id: string, cache: SaltDataCache): Promise<boolean> {
  const file = path.join(cache.cachedir, 'minions', id, 'mine.p');
  try {
    const bytes = await readBounded(file, cache.maxBytes);
    if (bytes === undefined) return false;
    const data = unpackLocal(bytes);
    if (!isWireMap(data)) throw new TypeError('not a map');
    await mine.update(id, { data, clear: false }, undefined);
    return true;
  } catch (error) {
    cache.log.warn({ minion: id, file, err: error }, 'mine was not taken over');
    return false;
  }
}

export interface MineDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly auth: Auth;
  readonly jobs: Jobs;
  readonly users: Users;
}

/** The mines, and who may read in them. */
export interface Mine {
  readonly mine: MineStore;
  readonly mineReader: MineReader;
}

/** Opens the mines as they are configured. */
export async function openMine(deps: MineDeps): Promise<Mine> {
  const { config, context, auth, jobs, users } = deps;
  const { fixed } = config;
  const { store, now } = context;
  const { keys } = auth;
  const mine = new MineStore({
    store,
    isOn: fixed.minionDataCache || fixed.enforceMineCache,
    maxBytes: fixed.limits.mineBytes,
    maxValueBytes: fixed.limits.mineValueBytes,
    keepMarksMs: fixed.publishSession * 1000,
    now,
  });
  for await (const owner of mine.owners()) {
    if (!fixed.preserveMinionCache && keys.get(owner) === undefined) await mine.forget(owner);
  }
  if (fixed.minionDataCache) {
    const log = context.log.child({ component: 'mine' });
    const count = await takeOverMines(mine, store, {
      cachedir: fixed.cachedir,
      ids: keys.acceptedIds(),
      maxBytes: 2 * fixed.limits.mineBytes,
      log,
    });
    if (count > 0) log.info({ minions: count }, 'mines taken over from salt-master');
  }
  auth.onRetire((id) => mine.forget(id));
  auth.onKeyDeleted((id) => mine.forget(id));
  const mineReader = new MineReader({
    mine,
    targets: jobs.targets,
    gate: users.gate,
    trustsGrains: fixed.mineTrustsGrains,
    maxBytes: fixed.limits.mineReplyBytes,
  });
  return { mine, mineReader };
}
