/** One minion's pillar, from its files [salt/pillar/__init__.py compile_pillar]. */

import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import {
  type CompiledTarget,
  compileGlob,
  compileTarget,
  type FactMap,
  type FactSource,
  factsOf,
  type Nodegroups,
  packLocal,
  pythonStr,
  type TargetCandidate,
  type TargetExpression,
  traverseFacts,
  type WireMap,
  type WireValue,
} from '../../minion-protocol/index.ts';
import {
  Dict,
  Float,
  type PlainData,
  type SaltFunction,
  TemplateError,
  toPython,
  type Value,
} from '../../template/index.ts';
import { MasterError } from '../api/index.ts';
import { badTarget, type MasterConfig, parseTarget, valuesForMinions } from '../config/index.ts';
import { SlowPatterns } from '../jobs/index.ts';
import { type PillarSetting, type PillarSource, type Reads, reasonOf } from './pillar.ts';
import { fromWire, toWire, toWirePillar } from './pillar-cache.ts';
import { findSls, SlsRenderer, type SourceFile } from './pillar-sources.ts';

// The grains of the asking minion, of which is known what was looked at.

const digestBytes = 32;

/** What a pillar looked at of a minion's grains. */
export class GrainReads {
  /** By grain: the mark of its value; null where there was none. */
  readonly values: Map<string, Buffer | null> = new Map();
  /** The mark of all of them, where something went through them. */
  whole: Buffer | undefined;

  /** Whether nothing was looked at but the id, which is verified. */
  get isEmpty(): boolean {
    return this.values.size === 0 && this.whole === undefined;
  }

  /** Whether what was looked at is the same in these grains. */
  agreeWith(grains: WireMap): boolean {
    if (this.whole !== undefined && !this.whole.equals(markOf(grains))) return false;
    for (const [key, before] of this.values) {
      const now = grainOf(grains, key);
      if (before === null || now === undefined) {
        if (before !== null || now !== undefined) return false;
      } else if (!before.equals(markOf(now))) return false;
    }
    return true;
  }
}

/** Grains, each look at which is noted. */
export class TracedGrains implements FactSource {
  readonly #grains: WireMap;
  readonly #facts: FactSource;
  readonly #reads: GrainReads;

  constructor(grains: WireMap, reads: GrainReads) {
    this.#grains = grains;
    this.#facts = factsOf(grains);
    this.#reads = reads;
  }

  get(key: string): WireValue | undefined {
    this.note(key);
    return this.#facts.get(key);
  }

  whole(): FactMap {
    if (this.#reads.whole === undefined) this.#reads.whole = markOf(this.#grains);
    return this.#grains;
  }

  note(key: string): void {
    if (key === 'id' || this.#reads.values.has(key)) return;
    const value = grainOf(this.#grains, key);
    this.#reads.values.set(key, value === undefined ? null : markOf(value));
  }

  names(): string[] {
    return Object.keys(this.#grains);
  }
}

/**
 * Grains as a template sees them. Each is converted when the template first looks at it; a copy,
 * so that a template that changes its grains changes nobody else's.
 */
export class GrainsDict extends Dict {
  readonly #grains: TracedGrains;
  readonly #settled = new Set<string>();

  constructor(grains: TracedGrains) {
    super();
    this.#grains = grains;
  }

  override get size(): number {
    this.#settleAll();
    return super.size;
  }

  override get(key: Value): Value | undefined {
    this.#settle(key);
    return super.get(key);
  }

  override has(key: Value): boolean {
    this.#settle(key);
    return super.has(key);
  }

  override set(key: Value, value: Value): void {
    this.#settle(key);
    super.set(key, value);
  }

  override delete(key: Value): boolean {
    this.#settle(key);
    return super.delete(key);
  }

  override clear(): void {
    this.#settleAll();
    super.clear();
  }

  override entries(): ReturnType<Dict['entries']> {
    this.#settleAll();
    return super.entries();
  }

  override keys(): Value[] {
    this.#settleAll();
    return super.keys();
  }

  override values(): Value[] {
    this.#settleAll();
    return super.values();
  }

  #settle(key: Value): void {
    if (typeof key !== 'string' || this.#settled.has(key)) return;
    this.#settled.add(key);
    const value = this.#grains.get(key);
    if (value !== undefined) super.set(key, toPython(value));
  }

  #settleAll(): void {
    this.#grains.whole();
    for (const name of this.#grains.names()) this.#settle(name);
  }
}

function grainOf(grains: WireMap, key: string): WireValue | undefined {
  return Object.hasOwn(grains, key) ? grains[key] : undefined;
}

/** Tells a value from all others: its packed form, or where that is longer its digest. */
function markOf(value: WireValue): Buffer {
  const packed = packLocal(value);
  return packed.length < digestBytes
    ? Buffer.from(packed)
    : createHash('sha256').update(packed).digest();
}

// How the files of a pillar are put over each other [salt/utils/dictupdate.py].

/** A map of pillar data. Maps are never changed: what is merged is made anew. */
export type PillarMap = ReadonlyMap<PlainData, PlainData>;

/** The values of `pillar_source_merging_strategy`. */
export const mergeStrategies = [
  'smart',
  'recurse',
  'aggregate',
  'overwrite',
  'list',
  'none',
] as const;

/** A value of `pillar_source_merging_strategy`; `smart` and `none` merge as `recurse` does. */
type MergeStrategy = (typeof mergeStrategies)[number];

/** How {@link mergePillar} merges. */
export interface MergeOptions {
  readonly strategy: MergeStrategy;
  /** `pillar_merge_lists`: lists are joined, without what is there already. */
  readonly mergeLists: boolean;
}

/** Whether data are a map. */
export function isPillarMap(data: PlainData | undefined): data is PillarMap {
  return data instanceof Map;
}

/** `upper` over `lower`, as the strategy says. */
export function mergePillar(
  lower: PillarMap,
  upper: PillarMap,
  { strategy, mergeLists }: MergeOptions,
): PillarMap {
  switch (strategy) {
    case 'list':
      return pairUp(lower, upper);
    // Salt joins the first level only, whatever its name promises.
    case 'aggregate':
    case 'overwrite':
      return new Map([...lower, ...upper]);
    case 'none':
      return mergeDeep(lower, upper, false);
    case 'smart':
    case 'recurse':
      return mergeDeep(lower, upper, mergeLists);
  }
}

/** `upper` over `lower`, maps level by level. @param mergeLists whether lists are joined */
export function mergeDeep(lower: PillarMap, upper: PillarMap, mergeLists: boolean): PillarMap {
  const merged = new Map(lower);
  for (const [key, value] of upper) merged.set(key, mergeValue(merged.get(key), value, mergeLists));
  return merged;
}

function mergeValue(
  lower: PlainData | undefined,
  upper: PlainData,
  mergeLists: boolean,
): PlainData {
  if (isPillarMap(lower) && isPillarMap(upper)) return mergeDeep(lower, upper, mergeLists);
  return mergeLists && Array.isArray(lower) && Array.isArray(upper)
    ? joinLists(lower, upper)
    : upper;
}

/** What is in the first list already is not added. */
function joinLists(lower: readonly PlainData[], upper: readonly PlainData[]): PlainData[] {
  const simple = new Set(lower.map(simpleMark));
  const added = upper.filter((value) => {
    const mark = simpleMark(value);
    return mark === undefined
      ? !lower.some((item) => isDeepStrictEqual(item, value))
      : !simple.has(mark);
  });
  return [...lower, ...added];
}

/** Equal for what is equal in Python; `undefined` for lists, maps and bytes. */
function simpleMark(value: PlainData): unknown {
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (value instanceof Float) return value.value;
  return typeof value === 'object' && value !== null ? undefined : value;
}

/** Salt's strategy `list`: of each key that both have, the two values; what only `upper` has is lost. */
function pairUp(lower: PillarMap, upper: PillarMap): PillarMap {
  const paired = new Map<PlainData, PlainData>();
  for (const [key, value] of lower) {
    const other = upper.get(key);
    paired.set(key, other === undefined ? value : [value, other]);
  }
  return paired;
}

// Which targets of a top file mean the asking minion [salt/matchers/confirm_top.py].

/** What a minion gets, by environment, in order. */
export type Matches = ReadonlyMap<string, readonly string[]>;

/** Finds the SLS of a minion. Targets that cannot be read mean nobody, and are told. */
export async function matchTop(
  targets: readonly TopTarget[],
  setting: PillarSetting,
  reads: Reads,
  errors: string[],
): Promise<Matches> {
  const matches = new Map<string, string[]>();
  const { id, grains, pillar, pillarenv } = setting;
  const candidate: TargetCandidate = {
    id,
    facts: {
      grains: new TracedGrains(grains, reads.grains),
      pillar: factsOf(toWirePillar(pillar)),
    },
  };
  for (const target of targets) {
    if (pillarenv !== undefined && target.saltenv !== pillarenv) continue;
    if (!(await isMeant(target, candidate, setting, errors))) continue;
    const names = target.items.filter((item) => typeof item === 'string');
    const known = matches.get(target.saltenv) ?? [];
    matches.set(target.saltenv, [...new Set([...known, ...names])]);
  }
  return matches;
}

async function isMeant(
  { tgt, items, saltenv }: TopTarget,
  candidate: TargetCandidate,
  setting: PillarSetting,
  errors: string[],
): Promise<boolean> {
  const kinds = items.filter(isPillarMap).flatMap((option) => option.get('match') ?? []);
  const kind = kinds.at(-1) ?? 'compound';
  try {
    if (typeof kind !== 'string') throw badTarget('match is the name of a matcher');
    const target = parseTarget({ tgt, tgtType: kind }, setting.nodegroups);
    const compiled = await compile(target, candidate, setting);
    return compiled.test(candidate) === 'yes';
  } catch (error) {
    if (!(error instanceof MasterError)) throw error;
    errors.push(`Target '${tgt}' of environment '${saltenv}': ${error.message}`);
    return false;
  }
}

/** What a minion says of itself is matched within bounds, whatever the expression [THREATS M-12]. */
async function compile(
  target: TargetExpression,
  candidate: TargetCandidate,
  { slowPatterns }: PillarSetting,
): Promise<CompiledTarget> {
  const slow = new SlowPatterns();
  const compiled = read(() => compileTarget(target, slow.compile));
  if (!slow.isNeeded) return compiled;
  for (const term of compiled.terms) term.test(candidate);
  await slow.settle(slowPatterns);
  return compiled;
}

function read(compileIt: () => CompiledTarget): CompiledTarget {
  try {
    return compileIt();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw badTarget(`it cannot be read: ${error.message}`, { cause: error });
  }
}

// The top files of pillar: which SLS a minion gets [salt/pillar/__init__.py get_tops, merge_tops].

/** One target of the top files. */
export interface TopTarget {
  readonly saltenv: string;
  readonly tgt: string;
  /** Options and names of SLS, as they stand there. */
  readonly items: readonly PlainData[];
}

/** All top files together. */
export interface Top {
  readonly targets: readonly TopTarget[];
  /** SLS that may be missing, as `<saltenv>:<sls>`. */
  readonly mayBeMissing: ReadonlySet<string>;
  readonly errors: readonly string[];
}

interface RenderedTop {
  readonly saltenv: string;
  readonly data: PlainData;
}

/** Reads the top files of all environments that this minion may have pillar of. */
export async function readTop(
  setting: PillarSetting,
  reads: Reads,
  renderer: SlsRenderer,
): Promise<Top> {
  const errors: string[] = [];
  try {
    const rendered = await renderTops(setting, reads, renderer, errors);
    return { ...mergeTops(rendered), errors };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    errors.push('Error encountered while rendering pillar top file.');
    return { targets: [], mayBeMissing: new Set(), errors };
  }
}

async function renderTops(
  setting: PillarSetting,
  reads: Reads,
  renderer: SlsRenderer,
  errors: string[],
): Promise<RenderedTop[]> {
  const tops: RenderedTop[] = [];
  try {
    for (const saltenv of envsOf(setting)) {
      const file = await reads.read(setting.top, saltenv);
      if (file === undefined) continue;
      const data = await renderer.render(file, { saltenv, sls: '', defaults: new Map() });
      tops.push({ saltenv, data });
    }
  } catch (error) {
    errors.push(`Rendering Primary Top file failed, render error:\n${reasonOf(error)}`);
  }
  const included = await renderIncluded(tops, reads, renderer, errors);
  return byEnvironment([...tops, ...included], setting.envs);
}

/** The top files that those include; what these include in turn is not looked at, as in Salt. */
async function renderIncluded(
  tops: readonly RenderedTop[],
  reads: Reads,
  renderer: SlsRenderer,
  errors: string[],
): Promise<RenderedTop[]> {
  const included: RenderedTop[] = [];
  for (const { saltenv, data: top } of tops) {
    const names = isPillarMap(top) ? new Set(listOf(top.get('include'))) : [];
    for (const sls of names) {
      try {
        const file = await findSls(reads, String(sls), saltenv);
        if (file === undefined) continue;
        const as = { saltenv, sls: '', defaults: new Map() };
        included.push({ saltenv, data: await renderer.render(file, as) });
      } catch (error) {
        errors.push(`Rendering Top file ${sls} failed, render error:\n${reasonOf(error)}`);
      }
    }
  }
  return included;
}

/** The environments whose top files count. */
function envsOf({ pillarenv, saltenv, envs, strategy }: PillarSetting): readonly string[] {
  if (pillarenv !== undefined) return envs.filter((env) => env === pillarenv);
  return strategy === 'none' ? envs.filter((env) => env === (saltenv ?? 'base')) : envs;
}

function byEnvironment(tops: readonly RenderedTop[], envs: readonly string[]): RenderedTop[] {
  return envs.flatMap((env) => tops.filter(({ saltenv }) => saltenv === env));
}

interface MutableTarget extends TopTarget {
  order: number;
  items: readonly PlainData[];
}

/** Of a target that stands in several files the last one counts. @throws TypeError for other forms */
function mergeTops(tops: readonly RenderedTop[]): Omit<Top, 'errors'> {
  const merged = new Map<string, MutableTarget>();
  const mayBeMissing = new Set<string>();
  for (const { data } of tops) {
    for (const [env, targets] of entriesOf(data)) {
      if (env === 'include') continue;
      for (const [key, value] of entriesOf(targets)) {
        const [saltenv, tgt] = [String(env), String(key)];
        const { options, names } = readItems(value);
        const mark = `${saltenv}\0${tgt}`;
        const order = orderOf(options);
        const items = [...options.filter((option) => option.has('match')), ...names];
        merged.set(mark, { ...(merged.get(mark) ?? { saltenv, tgt }), order, items });
        if (!options.some((option) => isTrue(option.get('ignore_missing')))) continue;
        for (const name of names) mayBeMissing.add(`${saltenv}:${name}`);
      }
    }
  }
  const inOrder = [...merged.values()].sort((left, right) => left.order - right.order);
  return { targets: groupByEnv(inOrder, merged.values()), mayBeMissing };
}

/** Environments stay in the order in which they were first met. */
function groupByEnv(sorted: readonly TopTarget[], met: Iterable<TopTarget>): TopTarget[] {
  const envs = new Set(Array.from(met, ({ saltenv }) => saltenv));
  return [...envs].flatMap((env) => sorted.filter(({ saltenv }) => saltenv === env));
}

/** A text is taken letter by letter, as Python goes through one; that shows as missing SLS. */
function readItems(value: PlainData): { readonly options: PillarMap[]; readonly names: string[] } {
  const items = typeof value === 'string' ? [...value] : listOf(value);
  return {
    options: items.filter(isPillarMap),
    names: [...new Set(items.filter((item) => typeof item === 'string'))],
  };
}

function orderOf(options: readonly PillarMap[]): number {
  const orders = options.flatMap((option) => option.get('order') ?? []);
  const order = orders.at(-1) ?? 0;
  if (typeof order === 'number') return order;
  if (typeof order === 'boolean') return order ? 1 : 0;
  if (typeof order !== 'string') throw new TypeError('an order is a number');
  return /^\s*[+-]?\d+\s*$/.test(order) ? Number(order) : 0;
}

function isTrue(data: PlainData | undefined): boolean {
  return Array.isArray(data) || isPillarMap(data) ? true : Boolean(data);
}

/** @throws TypeError */
function entriesOf(data: PlainData): Iterable<readonly [PlainData, PlainData]> {
  if (isPillarMap(data)) return data;
  throw new TypeError('expected a map');
}

/** @throws TypeError */
function listOf(data: PlainData | undefined): readonly PlainData[] {
  if (data === undefined) return [];
  if (Array.isArray(data)) return data;
  if (isPillarMap(data)) return [...data.keys()];
  throw new TypeError('expected a list');
}

/** A pillar as it was made. */
export interface CompiledPillar {
  /** Without `_errors`. */
  readonly pillar: PillarMap;
  /** What minions are told in `_errors`; none: all went well. */
  readonly errors: readonly string[];
  /** What went wrong, in full, for the log. */
  readonly failures: readonly unknown[];
  /** What the top files give this minion. */
  readonly matches: Matches;
  /** Each file that gave data, in the order in which they lie over each other. */
  readonly layers: readonly PillarLayer[];
}

/** The data that one file gave by itself, under the keys that it was included under. */
export interface PillarLayer {
  readonly saltenv: string;
  readonly sls: string;
  readonly file: SourceFile;
  readonly data: PillarMap;
}

/** The data of an SLS with all that it includes, and what they were made of. */
interface Rendered {
  readonly data: PlainData | undefined;
  readonly layers: readonly PillarLayer[];
}

/** SLS that one pillar may have, included ones counted. */
const maxSls = 2000;
/** Includes that one pillar may have, also of what was rendered before. */
const maxIncludes = 20_000;

export async function compilePillar(setting: PillarSetting, reads: Reads): Promise<CompiledPillar> {
  return new PillarCompiler(setting, reads).compile();
}

class PillarCompiler {
  readonly #setting: PillarSetting;
  readonly #reads: Reads;
  readonly #renderer: SlsRenderer;
  readonly #errors: string[] = [];
  readonly #failures: unknown[] = [];
  #mayBeMissing: Top['mayBeMissing'] = new Set();
  #count = 0;
  #includes = 0;

  constructor(setting: PillarSetting, reads: Reads) {
    this.#setting = setting;
    this.#reads = reads;
    this.#renderer = new SlsRenderer(setting, reads);
  }

  async compile(): Promise<CompiledPillar> {
    const top = await readTop(this.#setting, this.#reads, this.#renderer);
    this.#mayBeMissing = top.mayBeMissing;
    const targetErrors: string[] = [];
    const matches = await matchTop(top.targets, this.#setting, this.#reads, targetErrors);
    const layers: PillarLayer[] = [];
    let pillar: PillarMap = new Map();
    for (const [saltenv, patterns] of matches) {
      const names = await this.#expand(patterns, saltenv);
      for (const rendered of await new EnvironmentRun(saltenv, this).run(names)) {
        if (!isPillarMap(rendered.data)) continue;
        pillar = this.merge(pillar, rendered.data);
        layers.push(...rendered.layers);
      }
    }
    return {
      pillar,
      matches,
      errors: [...this.#errors, ...top.errors, ...targetErrors],
      failures: this.#failures,
      layers,
    };
  }

  merge(lower: PillarMap, upper: PillarMap): PillarMap {
    return mergePillar(lower, upper, this.#setting);
  }

  get includesOverride(): boolean {
    return this.#setting.includesOverride;
  }

  /** @throws MasterError ERR_PILLAR_FILE */
  countInclude(): void {
    this.#includes += 1;
    if (this.#includes <= maxIncludes) return;
    throw new MasterError('ERR_PILLAR_FILE', `a pillar has more than ${maxIncludes} includes`);
  }

  tell(error: string): void {
    this.#errors.push(error);
  }

  /** Names of SLS that patterns mean; a pattern that means none stays, and will be missing. */
  async #expand(patterns: readonly string[], saltenv: string): Promise<string[]> {
    const expanded: string[] = [];
    for (const pattern of patterns) {
      const found = await this.namesLike(pattern, saltenv);
      expanded.push(...(found.length === 0 ? [pattern] : found));
    }
    return expanded;
  }

  async namesLike(pattern: string, saltenv: string): Promise<string[]> {
    if (!this.#setting.envs.includes(saltenv)) {
      this.tell(`No matching pillar environment for environment '${saltenv}' found`);
      return [];
    }
    if (!/[*?[]/.test(pattern)) return (await this.#isThere(pattern, saltenv)) ? [pattern] : [];
    const names = await this.#reads.names(saltenv);
    const matches = compileGlob(pattern);
    return [...names].filter((name) => matches(name));
  }

  /** Whether a list would have it; asked of the file, so that other files do not matter. */
  async #isThere(sls: string, saltenv: string): Promise<boolean> {
    if (sls.includes('/') || sls.endsWith('.init')) return false;
    return (await findSls(this.#reads, sls, saltenv)) !== undefined;
  }

  /** The data of one file; `undefined` for one that may be missing, or that failed. */
  async load(
    sls: string,
    saltenv: string,
    defaults: PillarMap,
  ): Promise<{ readonly data: PlainData | undefined; readonly file: SourceFile | undefined }> {
    this.#count += 1;
    if (this.#count > maxSls) {
      throw new MasterError('ERR_PILLAR_FILE', `a pillar has more than ${maxSls} SLS`);
    }
    const isKnown = this.#setting.rooted.has(saltenv);
    const file = isKnown ? await findSls(this.#reads, sls, saltenv) : undefined;
    if (file === undefined) return { data: this.#missing(sls, saltenv, isKnown), file };
    try {
      return { data: await this.#renderer.render(file, { saltenv, sls, defaults }), file };
    } catch (error) {
      this.#fail(sls, error);
      return { data: undefined, file };
    }
  }

  #missing(sls: string, saltenv: string, isKnown: boolean): PillarMap | undefined {
    if (!isKnown || this.#mayBeMissing.has(`${saltenv}:${sls}`)) return undefined;
    this.tell(
      `Specified SLS '${sls}' in environment '${saltenv}' is not available on the salt master`,
    );
    return new Map();
  }

  #fail(sls: string, error: unknown): void {
    if (!(error instanceof TemplateError) && !(error instanceof MasterError)) throw error;
    this.#failures.push(error);
    const reason = this.#setting.isErrorSafe
      ? `Rendering SLS '${sls}' failed. Please see master log for details.`
      : `Rendering SLS '${sls}' failed, render error:\n${error.message}`;
    this.tell(reason);
  }
}

/** The SLS of one environment, each rendered once. */
class EnvironmentRun {
  readonly #saltenv: string;
  readonly #compiler: PillarCompiler;
  /** What each file gave by itself, without what it includes. */
  readonly #done = new Map<string, Rendered>();

  constructor(saltenv: string, compiler: PillarCompiler) {
    this.#saltenv = saltenv;
    this.#compiler = compiler;
  }

  async run(names: readonly string[]): Promise<Rendered[]> {
    const rendered: Rendered[] = [];
    for (const sls of names) rendered.push(await this.#render(sls, new Map()));
    return rendered;
  }

  async #render(sls: string, defaults: PillarMap): Promise<Rendered> {
    const { data, file } = await this.#compiler.load(sls, this.#saltenv, defaults);
    if (data !== undefined && !isPillarMap(data)) {
      this.#compiler.tell(`SLS '${sls}' does not render to a dictionary`);
    }
    if (!isPillarMap(data) || !data.has('include')) return this.#keep(sls, data, file);
    const include = data.get('include');
    if (!Array.isArray(include)) {
      this.#compiler.tell(`Include Declaration in SLS '${sls}' is not formed as a list`);
      return this.#keep(sls, data, file);
    }
    const rest = new Map([...data].filter(([key]) => key !== 'include'));
    const own = this.#keep(sls, rest, file);
    const place = file?.path.endsWith('/init.sls') === true ? sls : parentOf(sls);
    return this.#merge(own, await this.#included(include, place, defaults));
  }

  #keep(sls: string, data: PlainData | undefined, file: SourceFile | undefined): Rendered {
    const isLayer = isPillarMap(data) && file !== undefined;
    const layers = isLayer ? [{ saltenv: this.#saltenv, sls, file, data }] : [];
    const rendered = { data, layers };
    this.#done.set(sls, rendered);
    return rendered;
  }

  #merge(own: Rendered, included: readonly Rendered[]): Rendered {
    const parts = this.#compiler.includesOverride ? [own, ...included] : [...included, own];
    const data = parts.flatMap((part) => (isPillarMap(part.data) ? [part.data] : []));
    return {
      data: data.reduce((lower, upper) => this.#compiler.merge(lower, upper)),
      layers: parts.flatMap(({ layers }) => layers),
    };
  }

  /** @param place of names that begin with a dot */
  async #included(
    include: readonly PlainData[],
    place: string,
    inherited: PillarMap,
  ): Promise<Rendered[]> {
    const parts: Rendered[] = [];
    // Salt hands on the defaults of an include to those that follow it without any of their own.
    let defaults = inherited;
    for (const item of include) {
      const { name, key, given } = readInclude(item);
      defaults = given ?? defaults;
      for (const sls of await this.#namesOf(name, place)) {
        this.#compiler.countInclude();
        const { data, layers } = this.#done.get(sls) ?? (await this.#render(sls, defaults));
        if (!isPillarMap(data) || data.size === 0) continue;
        const moved = layers.map((layer) => ({ ...layer, data: under(key, layer.data) }));
        parts.push({ data: under(key, data), layers: moved });
      }
    }
    return parts;
  }

  async #namesOf(name: string, place: string): Promise<string[]> {
    const plain = name.replace(/^\.+/, '').replaceAll('/', '.');
    const full = name.startsWith('.') ? [place, name.slice(1)].filter(Boolean).join('.') : name;
    const found = [
      ...(await this.#compiler.namesLike(plain, this.#saltenv)),
      ...(await this.#compiler.namesLike(full, this.#saltenv)),
    ];
    return found.length === 0 ? [full] : found;
  }
}

interface Include {
  readonly name: string;
  readonly key: string | undefined;
  readonly given: PillarMap | undefined;
}

function readInclude(item: PlainData): Include {
  if (!isPillarMap(item)) return { name: String(item), key: undefined, given: undefined };
  const [[name, options] = ['', null]] = item;
  const map = isPillarMap(options) ? options : new Map<PlainData, PlainData>();
  const given = map.get('defaults');
  const key = map.get('key');
  return {
    name: String(name),
    key: typeof key === 'string' ? key : undefined,
    given: isPillarMap(given) ? given : new Map(),
  };
}

function parentOf(sls: string): string {
  return sls.split('.').slice(0, -1).join('.');
}

/** `a:b` puts the data below `a` and `b`. */
function under(key: string | undefined, data: PillarMap): PillarMap {
  if (key === undefined || key === '') return data;
  return key.split(':').reduceRight<PillarMap>((inner, part) => new Map([[part, inner]]), data);
}

// `salt['match.…']` of templates: whether a target means the asking minion [salt/modules/match.py].

/** Whom they are about. */
export interface MatchWorld {
  readonly id: string;
  /** What the minion says of itself; each look is noted. */
  readonly grains: TracedGrains;
  readonly nodegroups: Nodegroups;
}

const kinds = ['compound', 'glob', 'grain', 'grain_pcre', 'ipcidr', 'list', 'pcre'] as const;

export function matchFunctions(world: MatchWorld): Readonly<Record<string, SaltFunction>> {
  return Object.fromEntries(
    kinds.map((kind) => {
      const matches: SaltFunction = ([tgt, second], { tgt: named, minion_id: id = second }) => {
        const isAbout = kind === 'grain' || kind === 'grain_pcre' ? undefined : id;
        return isMeantByTarget(world, kind, tgt ?? named, isAbout);
      };
      return [`match.${kind}`, matches];
    }),
  );
}

/** As in Salt, what cannot be read means nobody. */
function isMeantByTarget(
  { id, grains, nodegroups }: MatchWorld,
  tgtType: string,
  tgt: PlainData | undefined,
  other: PlainData | undefined,
): boolean {
  const asked = Array.isArray(tgt) ? tgt.map(String) : String(tgt ?? '');
  const facts = { grains, pillar: factsOf({}) };
  const candidate = { id: typeof other === 'string' ? other : id, facts };
  try {
    return (
      compileTarget(parseTarget({ tgt: asked, tgtType }, nodegroups)).test(candidate) === 'yes'
    );
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof MasterError) return false;
    throw error;
  }
}

/** A pillar with that of a command line (`pillar=`) over it, and under it, as Salt has it. */
export function mergeOverride(pillar: FactMap, override: WireMap, options: MergeOptions): FactMap {
  if (Object.keys(override).length === 0) return pillar;
  const [lower, upper] = [fromWire(pillar), fromWire(override)];
  if (!isPillarMap(lower) || !isPillarMap(upper)) return pillar;
  return toWirePillar(mergePillar(mergePillar(upper, lower, options), upper, options));
}

// The functions that pillar templates may call as `salt['…']`: a closed list, none of which acts.

/** What they look at. */
export interface FunctionWorld {
  readonly grains: TracedGrains;
  readonly setting: {
    readonly pillar: PillarMap;
    readonly raisesOnMissing: boolean;
    readonly opts: Readonly<Record<string, unknown>>;
  };
}

type Named = Readonly<Record<string, PlainData>>;

export function saltFunctions({
  grains,
  setting,
}: FunctionWorld): Readonly<Record<string, SaltFunction>> {
  const grain = (path: string, delimiter: string): WireValue | undefined =>
    find(grains, path, delimiter);
  const pillar = { get: (key: string): WireValue | undefined => fromPillar(setting.pillar, key) };
  return {
    'grains.get': takes(['key', 'default', 'delimiter'], ({ key, default: other, delimiter }) => {
      return grain(text(key, 'key'), textOr(delimiter, ':')) ?? other ?? '';
    }),
    'grains.items': () => grains.whole(),
    'grains.has_value': takes(['key'], ({ key }) => {
      return isTruthyWire(grain(text(key, 'key'), ':'));
    }),
    'grains.filter_by': takes(
      ['lookup_dict', 'grain', 'merge', 'default', 'base'],
      ({ lookup_dict: table, grain: name, merge, default: other, base }) => {
        const value = grain(textOr(name, 'os_family'), ':');
        return filterBy(map(table, 'lookup_dict'), value, { merge, other, base });
      },
    ),
    'pillar.get': takes(['key', 'default'], ({ key, default: other }) => {
      const value = find(pillar, text(key, 'key'), ':');
      if (value !== undefined) return value;
      if (other === undefined && setting.raisesOnMissing) {
        throw new Error(`Pillar key not found: ${key}`);
      }
      return other ?? '';
    }),
    'pillar.items': () => setting.pillar,
    'config.get': takes(['key', 'default'], ({ key, default: other }) => {
      const name = text(key, 'key');
      const option = Object.hasOwn(setting.opts, name) ? setting.opts[name] : undefined;
      return option ?? grain(name, ':') ?? find(pillar, name, ':') ?? other ?? '';
    }),
    ...mergers,
    ...digests,
  };
}

const mergers: Readonly<Record<string, SaltFunction>> = {
  'defaults.merge': takes(['dest', 'upd', 'merge_lists'], ({ dest, upd, merge_lists: lists }) => {
    return mergeDeep(map(dest, 'dest'), map(upd, 'upd'), lists === true);
  }),
  'slsutil.update': takes(
    ['dest', 'upd', 'recursive_update', 'merge_lists'],
    ({ dest, upd, recursive_update: isDeep, merge_lists: lists }) => {
      const [lower, upper] = [map(dest, 'dest'), map(upd, 'upd')];
      return isDeep === false
        ? new Map([...lower, ...upper])
        : mergeDeep(lower, upper, lists === true);
    },
  ),
  'slsutil.merge': takes(
    ['obj_a', 'obj_b', 'strategy', 'renderer', 'merge_lists'],
    ({ obj_a: lower, obj_b: upper, strategy: name, merge_lists: lists }) => {
      const strategy = mergeStrategies.find((known) => known === (name ?? 'smart')) ?? 'recurse';
      const options = { strategy, mergeLists: lists === true };
      return mergePillar(map(lower, 'obj_a'), map(upper, 'obj_b'), options);
    },
  ),
};

const digests: Readonly<Record<string, SaltFunction>> = {
  'hashutil.md5_digest': digest('md5'),
  'hashutil.sha256_digest': digest('sha256'),
  'hashutil.sha512_digest': digest('sha512'),
  'hashutil.base64_b64encode': takes(['instr'], ({ instr }) => {
    return Buffer.from(text(instr, 'instr')).toString('base64');
  }),
  'hashutil.base64_b64decode': takes(['instr'], ({ instr }) => {
    return Buffer.from(text(instr, 'instr'), 'base64').toString('utf8');
  }),
};

function digest(type: string): SaltFunction {
  return takes(['instr'], ({ instr }) => {
    return createHash(type).update(text(instr, 'instr')).digest('hex');
  });
}

/** A function of named parameters, each given by place or by name. */
function takes(names: readonly string[], call: (given: Named) => unknown): SaltFunction {
  return (args, kwargs) => {
    if (args.length > names.length) {
      throw new TypeError(`at most ${names.length} arguments are taken`);
    }
    for (const name of Object.keys(kwargs)) {
      if (!names.includes(name)) throw new TypeError(`${name} is no argument of it`);
    }
    const byPlace = args.map((value, index): [string, PlainData] => [names[index] ?? '', value]);
    return call({ ...Object.fromEntries(byPlace), ...kwargs });
  };
}

interface Filter {
  readonly merge: PlainData | undefined;
  readonly other: PlainData | undefined;
  readonly base: PlainData | undefined;
}

/** [salt/utils/data.py filter_by] */
function filterBy(
  table: PillarMap,
  value: WireValue | undefined,
  { merge, other = 'default', base }: Filter,
): PlainData {
  const values = Array.isArray(value) ? value : value === undefined ? [] : [value];
  let found: PlainData = chosen(table, values) ?? table.get(other) ?? null;
  const lowest = base === undefined || base === null ? undefined : table.get(base);
  if (found === null) found = lowest ?? null;
  else if (isPillarMap(lowest)) found = mergeDeep(lowest, map(found, 'the value found'), false);
  if (merge === undefined || merge === null) return found;
  const upper = map(merge, 'merge');
  return found === null ? upper : mergeDeep(map(found, 'the value found'), upper, false);
}

function chosen(table: PillarMap, values: readonly WireValue[]): PlainData | undefined {
  for (const value of values) {
    for (const [key, result] of table) {
      if (result !== null && compileGlob(pythonText(key))(pythonStr(value))) return result;
    }
  }
  return undefined;
}

function pythonText(key: PlainData): string {
  return typeof key === 'string' ? key : pythonStr(toWire(key));
}

function fromPillar(pillar: PillarMap, key: string): WireValue | undefined {
  const value = pillar.get(key);
  return value === undefined ? undefined : toWire(value);
}

function find(
  source: { get(key: string): WireValue | undefined },
  path: string,
  delimiter: string,
): WireValue | undefined {
  const [first = '', ...rest] = path.split(delimiter);
  return traverseFacts(source.get(first), rest);
}

function isTruthyWire(value: WireValue | undefined): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return Boolean(value);
}

function text(value: PlainData | undefined, name: string): string {
  if (typeof value === 'string') return value;
  throw new TypeError(`${name} is not text`);
}

function textOr(value: PlainData | undefined, fallback: string): string {
  return typeof value === 'string' ? value : fallback;
}

function map(value: PlainData | undefined, name: string): PillarMap {
  if (isPillarMap(value)) return value;
  throw new TypeError(`${name} is not a dictionary`);
}

// `pillar_opts`: options of the master in the pillar [salt/pillar/__init__.py compile_pillar].

/** A source of pillar with `master` in it: options that minions may know. */
export function withMasterOptions(base: PillarSource, config: MasterConfig): PillarSource {
  const compile = base.compile?.bind(base);
  return {
    provide: async (request) => {
      const answer = await base.provide(request);
      const master = valuesForMinions(config);
      const pillar = withMaster(answer.pillar, master);
      const isSame = answer.proven === answer.pillar;
      return { pillar, proven: isSame ? pillar : withMaster(answer.proven, master) };
    },
    ...(compile === undefined ? {} : { compile }),
  };
}

function withMaster(pillar: FactMap, master: WireMap): FactMap {
  if (pillar instanceof Map) return new Map([...pillar, ['master', master]]);
  return Object.assign(Object.create(null), pillar, { master });
}
