import Type from '#typebox';
import { Compile } from '#typebox/compile';
import {
  isWireMap,
  packLocal,
  unpackLocal,
  type WireMap,
  type WireValue,
} from '../../minion-protocol/index.ts';
import { StoreError } from '../../store/index.ts';
import type { JobReturn } from '../api/index.ts';
import { tags } from '../events/index.ts';
import type { PublicationId } from './publication-log.ts';

/** A published job, as it is kept [WIRE 15.4]. */
export interface JobRecord {
  readonly jid: string;
  /** A list: several functions in one job. */
  readonly fun: string | readonly string[];
  /**
   * Positional values, keywords last as a map with `__kwarg__` [WIRE 11.5]. For several functions
   * such a list for each.
   */
  readonly arg: readonly WireValue[];
  readonly tgt: string | readonly string[];
  readonly tgtType: string;
  readonly user: string;
  /** Ids that it was published to. */
  readonly minions: readonly string[];
  readonly missing: readonly string[];
  /** Milliseconds since 1970. */
  readonly publishedAt: number;
  /** Whether a minion started it itself (`jid: req`). */
  readonly selfMade: boolean;
  /** Subscribers that were passed over because their queue was full. Absent: none. */
  readonly skipped?: number;
  /** Which minions it was published to together, in their order. Absent: not known. */
  readonly publications?: readonly JobPublication[];
  /** As it was published with the job. */
  readonly metadata?: WireMap;
  /** The minion that asked for it. Absent: an operator, or a service. */
  readonly requestedBy?: string;
}

/** A publication that brought a job to some of its minions. */
export interface JobPublication extends PublicationId {
  /** How many: the next ones in the list of the job's minions. */
  readonly minions: number;
}

/** The name that a result is shown under: that of the minion, or of what it manages. */
export function returnerOf({ minion, resource }: Pick<JobReturn, 'minion' | 'resource'>): string {
  return resource ?? minion;
}

const nobody: ReadonlySet<string> = new Set();

/**
 * A job that the master still knows by heart: who it is for, who has answered. Thousands are known,
 * nearly all of them over: what only one under way needs is made when it does.
 */
export class Job {
  readonly jid: string;
  readonly fun: string | readonly string[];
  /** Whether its returns are kept. Not so for the master's own `find_job` rounds. */
  readonly isKept: boolean;
  /** Milliseconds since 1970. */
  readonly publishedAt: number;
  readonly #minions: Set<string>;
  #answered: Set<string> | undefined;
  /** Resources that have answered, by the minions that manage them. */
  #resources: Map<string, Set<string>> | undefined;
  /** What minions return for in place of themselves. */
  #expected: Map<string, ReadonlySet<string>> | undefined;
  #running: ReadonlySet<string> = nobody;
  #listeners: Set<(result: JobReturn) => void> | undefined;

  constructor(
    record: Pick<JobRecord, 'jid' | 'fun' | 'minions' | 'publishedAt'>,
    options: { readonly isKept: boolean },
  ) {
    this.jid = record.jid;
    this.fun = record.fun;
    this.#minions = new Set(record.minions);
    this.isKept = options.isKept;
    this.publishedAt = record.publishedAt;
  }

  get minions(): ReadonlySet<string> {
    return this.#minions;
  }

  /** It is published to more minions under its jid: the next slice of a batch. */
  extend(minions: readonly string[]): void {
    for (const minion of minions) this.#minions.add(minion);
  }

  /** Whether a minion has answered, or a resource of it. */
  hasAnswered(minionId: string, resource?: string): boolean {
    if (resource === undefined) return this.#answered?.has(minionId) === true;
    return this.#resources?.get(minionId)?.has(resource) === true;
  }

  /** These minions return for these resources, in place of themselves. */
  expectResources(resources: ReadonlyMap<string, ReadonlySet<string>>): void {
    if (resources.size > 0) this.#expected = new Map([...(this.#expected ?? []), ...resources]);
  }

  /** What a minion returns for in place of itself; `undefined`: for itself. */
  expectedOf(minionId: string): ReadonlySet<string> | undefined {
    return this.#expected?.get(minionId);
  }

  /** Whether all that a minion returns has come: for itself, or for each expected resource. */
  isOver(minionId: string): boolean {
    if (this.hasAnswered(minionId)) return true;
    const expected = this.expectedOf(minionId);
    const answered = this.#resources?.get(minionId);
    if (expected === undefined || answered === undefined) return false;
    if (answered.size < expected.size) return false;
    return [...expected].every((id) => answered.has(id));
  }

  /** Whether any resource of a minion has answered. */
  hasResourceAnswer(minionId: string): boolean {
    return this.#resources?.has(minionId) === true;
  }

  /** How many have answered since it is known by heart. */
  get answered(): number {
    return this.#answered?.size ?? 0;
  }

  /** Minions that said last time they were asked that they are still at it. */
  get running(): ReadonlySet<string> {
    return this.#running;
  }

  /** Remembers which of the minions that were asked said that they are at it. */
  noteRunning(asked: readonly string[], running: ReadonlySet<string>): void {
    const others = new Set(this.#running);
    for (const minion of asked) others.delete(minion);
    this.#running = new Set([...others, ...running]);
  }

  /** Tells everybody who waits. A second return of the same minion or resource tells nobody. */
  answer(result: JobReturn): void {
    const { minion, resource } = result;
    if (this.hasAnswered(minion, resource)) return;
    if (resource === undefined) this.#note(minion);
    else this.#noteResource(minion, resource);
    for (const listener of this.#listeners ?? []) listener(result);
  }

  #note(minion: string): void {
    this.#answered ??= new Set();
    this.#answered.add(minion);
  }

  #noteResource(minion: string, resource: string): void {
    this.#resources ??= new Map();
    const answered = this.#resources.get(minion) ?? new Set<string>();
    this.#resources.set(minion, answered.add(resource));
  }

  /** Calls `listener` for each return from now on, until the given function is called. */
  onReturn(listener: (result: JobReturn) => void): () => void {
    this.#listeners ??= new Set();
    this.#listeners.add(listener);
    return () => {
      this.#listeners?.delete(listener);
      if (this.#listeners?.size === 0) this.#listeners = undefined;
    };
  }

  get isWatched(): boolean {
    return this.#listeners !== undefined;
  }
}

/** The `salt/job/<jid>/new` event's data [WIRE 14.2]. */
export function newJobEvent(record: JobRecord): WireMap {
  return {
    jid: record.jid,
    tgt_type: record.tgtType,
    tgt: typeof record.tgt === 'string' ? record.tgt : [...record.tgt],
    user: record.user,
    fun: typeof record.fun === 'string' ? record.fun : [...record.fun],
    arg: [...record.arg],
    minions: [...record.minions],
    missing: [...record.missing],
  };
}

// Encoding in the store: maps in Salt's local MessagePack dialect.

const Texts = Type.Array(Type.String());
const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());

const recordSchema = Compile(
  Type.Object({
    jid: Type.String(),
    fun: Type.Union([Type.String(), Texts]),
    arg: Type.Array(AnyValue),
    tgt: Type.Union([Type.String(), Texts]),
    tgtType: Type.String(),
    user: Type.String(),
    minions: Texts,
    missing: Texts,
    publishedAt: Type.Number(),
    selfMade: Type.Boolean(),
    skipped: Type.Optional(Type.Number()),
    publications: Type.Optional(
      Type.Array(
        Type.Object({ process: Type.String(), number: Type.Number(), minions: Type.Number() }),
      ),
    ),
    metadata: Type.Optional(Type.Unsafe<WireMap>(Type.Object({}))),
    requestedBy: Type.Optional(Type.String()),
  }),
);

const returnSchema = Compile(
  Type.Object({
    minion: Type.String(),
    resource: Type.Optional(Type.String()),
    fun: Type.Union([Type.String(), Texts]),
    return: AnyValue,
    retcode: AnyValue,
    success: AnyValue,
    out: Type.Optional(Type.String()),
    receivedAt: Type.Number(),
  }),
);

export function packRecord({ publications, ...record }: JobRecord): Buffer {
  const map: WireMap = {
    ...record,
    fun: typeof record.fun === 'string' ? record.fun : [...record.fun],
    arg: [...record.arg],
    tgt: typeof record.tgt === 'string' ? record.tgt : [...record.tgt],
    minions: [...record.minions],
    missing: [...record.missing],
    ...(publications === undefined ? {} : { publications: publications.map((it) => ({ ...it })) }),
  };
  return packLocal(map);
}

/** @throws StoreError ERR_STORE_CORRUPT */
export function unpackRecord(bytes: Uint8Array): JobRecord {
  const value = unpackLocal(bytes);
  if (recordSchema.Check(value)) return value;
  throw new StoreError('ERR_STORE_CORRUPT', 'a stored job has an unknown form');
}

export function packReturn(result: JobReturn): Buffer {
  const map: WireMap = {
    ...result,
    fun: typeof result.fun === 'string' ? result.fun : [...result.fun],
  };
  return packLocal(map);
}

/** @throws StoreError ERR_STORE_CORRUPT */
export function unpackReturn(bytes: Uint8Array): JobReturn {
  const value = unpackLocal(bytes);
  if (returnSchema.Check(value)) return value;
  throw new StoreError('ERR_STORE_CORRUPT', 'a stored return has an unknown form');
}

/**
 * Whether a minion's `retcode` says that it failed: not 0, or, where several functions ran, a map
 * with one that is not [salt cli/salt.py _get_retcode].
 */
export function isFailureCode(retcode: WireValue): boolean {
  if (retcode instanceof Map) return [...retcode.values()].some(isFailureCode);
  if (isWireMap(retcode)) return Object.values(retcode).some(isFailureCode);
  return retcode !== 0 && retcode !== false && retcode !== null;
}

// Events for failed states [WIRE 14.3].

const stateFunctions: ReadonlySet<WireValue> = new Set(['state.highstate', 'state.sls']);

interface NamedEvent {
  readonly tag: string;
  readonly data: WireMap;
}

/** Two events a failed state: Salt's old form, and the one under the job's tag. */
export function stateErrorEvents(load: WireMap, jid: string, minionId: string): NamedEvent[] {
  const { fun, retcode } = load;
  const results = load.return;
  if (!stateFunctions.has(fun ?? null) || !retcode || !isWireMap(results)) return [];
  return Object.entries(results).flatMap(([key, entry]) => {
    if (!isWireMap(entry) || entry.result !== false) return [];
    const parts = key.split('_|-');
    const failed = `${parts[0] ?? ''}.${parts.at(-1) ?? ''}`;
    const data: WireMap = {
      ...entry,
      jid,
      id: minionId,
      retcode,
      success: false,
      return: `Error: ${failed}`,
      fun: fun ?? null,
      user: load.user ?? null,
    };
    return [
      { tag: failed, data },
      { tag: tags.stateError(jid, minionId, String(fun)), data },
    ];
  });
}
