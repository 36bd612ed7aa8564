/**
 * Compiles one minion's pillar from its files: top files, includes, merging, `pillar_opts`
 * [salt/pillar/__init__.py compile_pillar].
 */

import { type LiveConfig, valuesForMinions } from '#config';
import { badTarget, MasterError, parseTarget, SlowPatterns } from '#master';
import {
  type CompiledTarget,
  compileTarget,
  type FactMap,
  factsOf,
  type TargetCandidate,
  type TargetExpression,
  type WireMap,
} from '#minion-protocol';
import { type PlainData, TemplateError } from '#template';
import { compileGlob } from '#template/python/fnmatch.ts';
import { TracedGrains } from '../render/grains.ts';
import {
  type CompiledPillar,
  isPillarMap,
  type Matches,
  mergePillar,
  type PillarLayer,
  type PillarMap,
  type PillarSource,
  reasonOf,
  type SourceFile,
  toWirePillar,
} from '../render/pillar-data.ts';
import { findSls, type PillarSetting, type Reads, SlsRenderer } from '../render/pillar-sources.ts';

// Matching of top file targets [salt/matchers/confirm_top.py].

/** Finds the SLS of a minion. Targets that cannot be read mean nobody, and are told. */
async function matchTop(
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

// Top files [salt/pillar/__init__.py get_tops, merge_tops].

/** One target of the top files. */
interface TopTarget {
  readonly saltenv: string;
  readonly tgt: string;
  /** Options and names of SLS, as they stand there. */
  readonly items: readonly PlainData[];
}

/** All top files together. */
interface Top {
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
async function readTop(setting: PillarSetting, reads: Reads, renderer: SlsRenderer): Promise<Top> {
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

// `pillar_opts` [salt/pillar/__init__.py compile_pillar].

/** A source of pillar with `master` in it: options that minions may know. */
export function withMasterOptions(base: PillarSource, config: LiveConfig): PillarSource {
  const compile = base.compile?.bind(base);
  return {
    provide: async (request) => {
      const answer = await base.provide(request);
      const master = valuesForMinions(config.all, config.leftOut);
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
