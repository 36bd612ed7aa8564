/**
 * Shares compiled pillars between minions. Minions with equal inputs get one compiled pillar. A
 * grain that templates print, but do not use in any other way, need not be equal. The value of such
 * a "late grain", for example the id, is inserted for each minion.
 */

import { hash, randomBytes } from 'node:crypto';
import type { LRUCache } from 'lru-cache';
import { minionOwner } from '#master';
import { packLocal, type WireMap, type WireValue } from '#minion-protocol';
import { createBoundedMap, unlimitedSteps, WorkBudget } from '#runtime';
import type { PlainData } from '#template';
import { saltLimits } from '../limits.ts';
import { GrainReads, markOfGrain } from '../render/grains.ts';
import { fillMarks, LatePaths, type LateRules } from '../render/late-grains.ts';
import { isList, isPillarMap, type PillarMap } from '../render/pillar-data.ts';
import type { CompiledPillar, PillarAnswer } from '../render/pillar-source.ts';
import type { LateSetting, PillarSetting, PillarSources } from '../render/pillar-sources.ts';
import { fromWire, toWire, toWirePillarInSteps } from '../render/pillar-wire.ts';
import { type CacheDependencies, Reads } from '../render/reads.ts';
import { runInSlices } from '../render/slices.ts';
import { type Assignment, assign, compileAssigned, renderTop } from './compile-pillar.ts';
import { OneAtATime } from './one-at-a-time.ts';
import { PillarAssignments, type SharedAssignment } from './pillar-assignments.ts';
import type { PillarKey } from './pillar-cache.ts';
import { type CachedPillar, packAnswer, unpackAnswer } from './pillar-records.ts';
import { type ResultStore, type SharedResult, SharedResults } from './shared-results.ts';
import type { Top } from './top-files.ts';

/**
 * Settings for compiling a minion's pillar, and settings for compiling the version of this pillar
 * that does not depend on grains.
 */
export interface PillarSettings {
  readonly setting: PillarSetting;
  /**
   * Settings for compiling a second version of the pillar, which does not depend on the grains of
   * the minion.
   */
  readonly proven: PillarSetting;
  /** Whether the pillar of this minion, and the top files rendered for it, are cached. */
  readonly isKept: boolean;
}

/** A compiled pillar for one minion. */
export interface ProvidedPillar {
  readonly answer: PillarAnswer;
  /** Whether the pillar was compiled for an earlier request. */
  readonly isShared: boolean;
  /**
   * Dependencies of the pillar. Present only if the pillar must be cached for this minion alone.
   */
  readonly own?: CacheDependencies;
}

export interface PillarSharingOptions {
  readonly sources: PillarSources;
  readonly persistent: ResultStore | undefined;
  /**
   * Names of the late grains. Templates print placeholders for these grains, and the values of each
   * minion are inserted later.
   */
  readonly lateGrains: readonly string[];
  /** Returns milliseconds since 1970. */
  readonly now: () => number;
  /** Called for each compiled pillar. */
  readonly onCompiled: (compiled: CompiledPillar, minion: string) => void;
  /** Called if a shared pillar or a shared top file could not be written to the store. */
  readonly onUnstored: (error: unknown, minion: string) => void;
}

/**
 * Merged top files for a minion: `top` is rendered with the grains of the minion, `proven` without
 * them.
 */
interface Tops {
  readonly top: Top;
  readonly proven: Top;
  readonly madeFrom: CacheDependencies;
}

/**
 * SLS that the top files assign to a minion, and the grains that determine the assignment. Minions
 * with equal assignments share one object.
 */
interface Placed extends SharedAssignment {
  readonly base: string;
  /**
   * Top files from which the assignment was made. The reference is weak, so that only the table of
   * shared results, whose size is limited, keeps top files in memory.
   */
  readonly tops: WeakRef<Tops>;
  /** Grains that were read to match the targets of the top files. */
  readonly read: GrainReads;
  /**
   * Fingerprint of the inputs that are known before rendering, such as the environment and the
   * assigned SLS.
   */
  readonly root: string;
  /** Whether the minion would have the same SLS assigned if the master did not know its grains. */
  readonly isProven: boolean;
}

/** Grain with a different value on each minion. */
const idGrain = 'id';
/** Maximum time that a request waits for the rendering of another request, in milliseconds. */
const maxWaitMs = 3000;
/**
 * Time for which requests with the same known inputs ({@link Placed.root}) do not wait for each
 * other, in milliseconds. It begins when the pillar of one such request cannot be used for other
 * minions.
 */
const unsharedMs = 60_000;
/** Names of the store's tables for shared pillars and shared top files. */
export const sharedTables = { pillars: 'pillar-cache', tops: 'pillar-tops' } as const;

/** Compiles pillars for groups of minions with equal inputs. */
export class PillarSharing {
  readonly #options: PillarSharingOptions;
  readonly #rules: LateRules | undefined;
  /**
   * Grains that usually differ on each minion. If a template reads one, the pillar is not shared.
   */
  readonly #distinct: ReadonlySet<string>;
  readonly #tops: SharedResults;
  readonly #pillars: SharedResults;
  readonly #read = new WeakMap<CachedPillar, Tops>();
  readonly #assignments = new PillarAssignments<Placed>();
  readonly #unshared: LRUCache<string, number>;
  readonly #turns = new OneAtATime(maxWaitMs);

  constructor(options: PillarSharingOptions) {
    const { sources, persistent, lateGrains: names, now } = options;
    this.#options = options;
    // No escape sequence of YAML or JSON begins with `qz`.
    const secret = `qz${randomBytes(12).toString('hex')}`;
    this.#rules = names.length === 0 ? undefined : { names, secret };
    this.#distinct = new Set([idGrain, ...names]);
    const shared = { sources, persistent, now };
    this.#tops = new SharedResults({
      ...shared,
      limit: saltLimits.sharedTops,
      table: sharedTables.tops,
    });
    this.#pillars = new SharedResults({
      ...shared,
      limit: saltLimits.sharedPillars,
      table: sharedTables.pillars,
    });
    this.#unshared = createBoundedMap<string, number>(saltLimits.pillarAssignments);
  }

  /**
   * Returns the pillar of a minion. Uses a shared pillar if there is one for the minion's inputs,
   * and compiles one otherwise. Returns `undefined` if the caller must compile the pillar for this
   * minion alone, with the real values of its grains.
   */
  async provide(key: PillarKey, settings: PillarSettings): Promise<ProvidedPillar | undefined> {
    const { id, grains } = settings.setting;
    if (grains[idGrain] !== id) return undefined;
    const base = digestOf([
      key.saltenv ?? null,
      key.pillarenv ?? null,
      key.lower,
      key.rules,
      [...this.#distinct],
    ]);
    const tops = await this.#topsOf(base, settings);
    if (tops === undefined) return undefined;
    const placed = await this.#place(base, tops, settings);
    const { root } = placed;
    const find = (): Promise<Found | undefined> => this.#find(root, grains);
    const make = (): Promise<Found> => this.#make(placed, tops, settings);
    const found = await this.#turns.run({ key: root, owner: id }, find, make, () =>
      this.#isUnshared(root),
    );
    return found === 'unfit' ? undefined : found;
  }

  /**
   * Deletes the results that were rendered for a minion.
   * @throws StoreError
   */
  async forget(id: string): Promise<void> {
    this.#assignments.forget(id);
    await Promise.all([this.#tops.forget(id), this.#pillars.forget(id)]);
  }

  /**
   * Returns one map for each shared pillar. The map contains the fingerprint of each grain that the
   * rendering has read, by name of the grain.
   */
  async inputs(): Promise<ReadonlyMap<string, string>[]> {
    return (await this.#pillars.current()).map(({ inputs }) => new Map(inputs));
  }

  async #find(root: string, grains: WireMap): Promise<Found | undefined> {
    const kept = await this.#pillars.find(root, grains);
    if (kept === undefined) return undefined;
    const answer = fillAnswer(unpackAnswer(kept), grains, { ...kept, paths: kept.late });
    return answer === undefined ? 'unfit' : { answer, isShared: true };
  }

  #isUnshared(name: string): boolean {
    return (this.#unshared.get(name) ?? 0) > this.#options.now();
  }

  /** Returns the top files for a minion, or `undefined` if they depend on its id. */
  async #topsOf(base: string, settings: PillarSettings): Promise<Tops | undefined> {
    const { grains } = settings.setting;
    const root = `top ${base}`;
    const find = async (): Promise<Tops | null | undefined> => {
      const kept = await this.#tops.find(root, grains);
      return kept && this.#topsIn(kept);
    };
    const render = (): Promise<Tops | null> => this.#renderTops(root, settings);
    const isUnshared = this.#isUnshared(`${root} ${settings.setting.id}`);
    const isFutile = (): boolean => this.#isUnshared(root);
    const turn = { key: root, owner: settings.setting.id };
    const tops = isUnshared ? await find() : await this.#turns.run(turn, find, render, isFutile);
    return tops ?? undefined;
  }

  #topsIn(kept: CachedPillar): Tops {
    const known = this.#read.get(kept);
    if (known !== undefined) return known;
    const { pillar, proven } = unpackAnswer(kept);
    const top = topOf(fromWire(pillar));
    const isSame = proven === pillar;
    const tops = { top, proven: isSame ? top : topOf(fromWire(proven)), madeFrom: kept.madeFrom };
    this.#read.set(kept, tops);
    return tops;
  }

  async #renderTops(
    root: string,
    { setting, proven, isKept }: PillarSettings,
  ): Promise<Tops | null> {
    const reads = new Reads(this.#options.sources);
    const beside = reads.beside();
    const top = await renderTop(setting, reads);
    const isSame = reads.grains.isEmpty;
    const tops: Tops = {
      top,
      proven: isSame ? top : await renderTop(proven, beside),
      madeFrom: reads.madeFrom,
    };
    if (!this.#isShareable(reads, beside)) {
      const until = this.#options.now() + unsharedMs;
      this.#unshared.set(root, until);
      // Perhaps the top files read the id only for some minions. Other minions therefore still try
      // to share.
      this.#unshared.set(`${root} ${setting.id}`, until);
      return null;
    }
    if (!isKept) return tops;
    const pillar = wireOfTop(top);
    const packed = packAnswer({ pillar, proven: isSame ? pillar : wireOfTop(tops.proven) });
    const { madeFrom } = tops;
    const owner = setting.id;
    this.#add(this.#tops, { ...packed, madeFrom, root, owner, late: [], secret: '' });
    return tops;
  }

  /**
   * Returns the SLS that the top files assign to a minion. The targets are matched again only if
   * the top files or grains changed.
   */
  async #place(
    base: string,
    tops: Tops,
    { setting, proven, isKept }: PillarSettings,
  ): Promise<Placed> {
    const { id, grains } = setting;
    const known = this.#assignments.of(id);
    const isSame = known?.base === base && known.tops.deref() === tops;
    if (known !== undefined && isSame && known.read.agreeWith(grains)) return known;
    const read = new GrainReads();
    const assignment = await assign(tops.top, setting, read);
    const isProven = tops.top === tops.proven && read.isEmpty;
    const other = isProven ? assignment : await assign(tops.proven, proven, new GrainReads());
    const assignments = isProven ? [assignment] : [assignment, other];
    const root = digestOf([base, ...assignments.map(wireOfAssignment)]);
    const name = `${root} ${read.text()}`;
    const equal = this.#assignments.named(name);
    const isEqual = equal?.tops.deref() === tops;
    const placed = isEqual
      ? equal
      : { base, tops: new WeakRef(tops), read, root, assignment, proven: other, isProven };
    const isHeld = isEqual || this.#assignments.add(id, name, placed);
    if (isKept && isHeld) this.#assignments.assign(id, name);
    return placed;
  }

  async #make(
    { read, root, isProven, ...assigned }: Placed,
    tops: Tops,
    { setting, proven, isKept }: PillarSettings,
  ): Promise<Found> {
    const { id, grains } = setting;
    const reads = new Reads(this.#options.sources);
    const beside = reads.beside();
    const paths = new LatePaths();
    const late: LateSetting | undefined = this.#rules && { rules: this.#rules, paths };
    const compiled = await compileAssigned(assigned.assignment, { ...setting, late }, reads);
    this.#options.onCompiled(compiled, id);
    const pillar = await answerOf(compiled, id);
    const isSame = isProven && reads.grains.isEmpty && !reads.isVolatile;
    const marked = {
      pillar,
      proven: isSame
        ? pillar
        : await answerOf(await compileAssigned(assigned.proven, { ...proven, late }, beside), id),
    };
    const marks = { secret: this.#rules?.secret ?? '', paths: paths.paths };
    const answer = fillAnswer(marked, grains, marks);
    if (answer === undefined) return 'unfit';
    if (reads.isVolatile || beside.isVolatile) return { answer, isShared: false };
    const isShareable = this.#isShareable(reads, beside);
    if (!isShareable) this.#unshared.set(root, this.#options.now() + unsharedMs);
    if (!isKept) return { answer, isShared: false };
    const { madeFrom } = reads;
    const shared = { root, owner: id, late: marks.paths, secret: marks.secret };
    const isAdded =
      isShareable && this.#add(this.#pillars, { ...packAnswer(marked), ...shared, madeFrom });
    if (isAdded) return { answer, isShared: false };
    const others = [read, lateReads(reads.grains, grains)].map((it) => {
      return { files: [], lists: [], grains: it };
    });
    const own = joinDependencies([tops.madeFrom, madeFrom, ...others]);
    return { answer, isShared: false, own };
  }

  /**
   * Whether a compiled pillar can be used for other minions: those with equal values of the grains
   * that it depends on.
   * @param reads - dependencies of the pillar
   * @param beside - dependencies of its second version, which is compiled without grains
   */
  #isShareable(reads: Reads, beside: Reads): boolean {
    if (reads.isVolatile || beside.isVolatile) return false;
    // The pillar part without grains is compiled with the id as the only grain.
    if (reads.grains.whole !== undefined || beside.grains.whole !== undefined) return false;
    if (beside.grains.values.has(idGrain)) return false;
    return [...reads.grains.values.keys()].every((name) => !this.#distinct.has(name));
  }

  /**
   * Adds a result to a table, and starts to write it to the store. Returns `false` if the table is
   * full and no result may be evicted.
   */
  #add(table: SharedResults, result: SharedResult): boolean {
    const kept = table.add(result);
    if (kept === undefined) return false;
    table.store(kept).catch((error: unknown) => this.#options.onUnstored(error, result.owner));
    return true;
  }
}

/**
 * Shared pillar, or `unfit` if this minion can use none. The pillar of the minion must then be
 * rendered for this minion alone.
 */
type Found = ProvidedPillar | 'unfit';

/**
 * Returns a compiled pillar as minions receive it: with the errors under the key `_errors`. Large
 * pillars are converted in slices.
 * @param minion - id of the minion, whose requests take turns with those of others
 */
export function answerOf(
  { pillar, errors }: CompiledPillar,
  minion: string,
): Promise<PillarAnswer['pillar']> {
  const whole: PillarMap = errors.length === 0 ? pillar : new Map([...pillar, ['_errors', errors]]);
  const budget = new WorkBudget(unlimitedSteps, minionOwner(minion));
  return runInSlices(toWirePillarInSteps(whole, budget), budget);
}

function fillAnswer(
  { pillar, proven }: PillarAnswer,
  grains: WireMap,
  marks: Parameters<typeof fillMarks>[2],
): PillarAnswer | undefined {
  const filled = fillMarks(pillar, grains, marks);
  const other = proven === pillar ? filled : fillMarks(proven, grains, marks);
  return filled && other && { pillar: filled, proven: other };
}

/**
 * Returns the grains that a rendering has printed as placeholders, each with the fingerprint of its
 * value on this minion. A pillar that is cached for this minion alone depends on these values.
 */
function lateReads({ late }: GrainReads, grains: WireMap): GrainReads {
  const read = new GrainReads();
  for (const name of late) read.values.set(name, markOfGrain(grains, name));
  return read;
}

function joinDependencies(parts: readonly CacheDependencies[]): CacheDependencies {
  const grains = new GrainReads();
  for (const part of parts) {
    for (const [name, mark] of part.grains.values) grains.values.set(name, mark);
    grains.whole ??= part.grains.whole;
  }
  return {
    files: parts.flatMap(({ files }) => files),
    lists: parts.flatMap(({ lists }) => lists),
    grains,
  };
}

function digestOf(value: WireValue): string {
  return hash('sha256', packLocal(value), 'base64');
}

function wireOfAssignment({ matches, mayBeMissing, errors }: Assignment): WireValue {
  const names = Array.from(matches, ([saltenv, sls]): WireValue => [saltenv, [...sls]]);
  return [names, [...mayBeMissing], [...errors]];
}

function wireOfTop({ targets, mayBeMissing, errors }: Top): WireMap {
  return {
    targets: targets.map(({ saltenv, tgt, items }) => [saltenv, tgt, items.map(toWire)]),
    mayBeMissing: [...mayBeMissing],
    errors: [...errors],
  };
}

/** Converts the result of {@link wireOfTop} back to merged top files. */
function topOf(data: PlainData): Top {
  const part = (name: string): readonly PlainData[] => {
    const value = isPillarMap(data) ? data.get(name) : undefined;
    return isList(value) ? value : [];
  };
  return {
    targets: part('targets').flatMap((target) => {
      const [saltenv, tgt, items] = isList(target) ? target : [];
      return isList(items) ? [{ saltenv: String(saltenv), tgt: String(tgt), items }] : [];
    }),
    mayBeMissing: new Set(part('mayBeMissing').map(String)),
    errors: part('errors').map(String),
  };
}
