/**
 * Compiles one minion's pillar from its files: top files, includes, merging, `pillar_opts`
 * [salt/pillar/__init__.py compile_pillar].
 */

import { type LiveConfig, valuesForMinions } from '#config';
import { MasterError } from '#master';
import type { FactMap, WireMap } from '#minion-protocol';
import { type PlainData, TemplateError } from '#template';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { GrainReads } from '../render/grains.ts';
import { mergePillar } from '../render/merge-pillar.ts';
import { isPillarMap, type PillarMap } from '../render/pillar-data.ts';
import type {
  CompiledPillar,
  Matches,
  PillarLayer,
  PillarSource,
} from '../render/pillar-source.ts';
import type { PillarSetting } from '../render/pillar-sources.ts';
import type { Reads } from '../render/reads.ts';
import { findSls, SlsRenderer } from '../render/sls-renderer.ts';
import type { SourceFile } from '../render/source-file.ts';
import { inputsOf } from './ext-pillar.ts';
import { matchTop } from './match-top.ts';
import { readTop, type Top } from './top-files.ts';

/** Data of an SLS with its includes, and the files that contributed to it. */
interface Rendered {
  readonly data: PlainData | undefined;
  readonly layers: readonly PillarLayer[];
}

/** Maximum number of SLS in one pillar, including included ones. */
const maxSls = 2000;
/** Maximum number of includes in one pillar, including those of SLS that were already rendered. */
const maxIncludes = 20_000;

/**
 * SLS that the top files assign to a minion, and the errors that occurred when the targets were
 * matched.
 */
export interface Assignment {
  readonly mayBeMissing: Top['mayBeMissing'];
  readonly matches: Matches;
  readonly errors: readonly string[];
}

export async function compilePillar(setting: PillarSetting, reads: Reads): Promise<CompiledPillar> {
  const top = await renderTop(setting, reads);
  return compileAssigned(await assign(top, setting, reads.grains), setting, reads);
}

/** Renders and merges the top files for a minion. */
export function renderTop(setting: PillarSetting, reads: Reads): Promise<Top> {
  return readTop(setting, reads, new SlsRenderer(setting, reads));
}

/**
 * Matches the targets of top files with a minion.
 * @param grains - receives the grains that were read to match the targets
 */
export async function assign(
  { targets, mayBeMissing, errors }: Top,
  setting: PillarSetting,
  grains: GrainReads,
): Promise<Assignment> {
  const targetErrors: string[] = [];
  const matches = await matchTop(targets, setting, grains, targetErrors);
  return { mayBeMissing, matches, errors: [...errors, ...targetErrors] };
}

/** Compiles the SLS that the top files assign to a minion. */
export function compileAssigned(
  assignment: Assignment,
  setting: PillarSetting,
  reads: Reads,
): Promise<CompiledPillar> {
  return new PillarCompiler(assignment, setting, reads).compile();
}

class PillarCompiler {
  readonly #setting: PillarSetting;
  readonly #reads: Reads;
  readonly #renderer: SlsRenderer;
  readonly #errors: string[] = [];
  readonly #failures: unknown[] = [];
  readonly #assignment: Assignment;
  #count = 0;
  #includes = 0;

  constructor(assignment: Assignment, setting: PillarSetting, reads: Reads) {
    this.#assignment = assignment;
    this.#setting = setting;
    this.#reads = reads;
    this.#renderer = new SlsRenderer(setting, reads);
  }

  async compile(): Promise<CompiledPillar> {
    const { matches, errors } = this.#assignment;
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
      errors: [...this.#errors, ...errors],
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

  /**
   * Counts one SLS that an `include` names.
   * @throws MasterError ERR_PILLAR_FILE if the pillar includes more than {@link maxIncludes} SLS
   */
  countInclude(): void {
    this.#includes += 1;
    if (this.#includes <= maxIncludes) return;
    throw new MasterError('ERR_PILLAR_FILE', `the pillar has more than ${maxIncludes} includes`);
  }

  addError(error: string): void {
    this.#errors.push(error);
  }

  /**
   * Expands patterns to names of SLS. A pattern without a match is returned unchanged, and a later
   * step reports it as a missing SLS.
   */
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
      this.addError(`No matching pillar environment for environment '${saltenv}' found`);
      return [];
    }
    if (!/[*?[]/.test(pattern)) return (await this.#isThere(pattern, saltenv)) ? [pattern] : [];
    const names = await this.#reads.names(saltenv);
    const matches = compileGlob(pattern);
    return [...names].filter((name) => matches(name));
  }

  /**
   * Whether an SLS exists. Looks up only the file of this SLS. If it listed all files, every new
   * file would invalidate the cached pillar.
   */
  async #isThere(sls: string, saltenv: string): Promise<boolean> {
    if (sls.includes('/') || sls.endsWith('.init')) return false;
    return (await findSls(this.#reads, sls, saltenv)) !== undefined;
  }

  /**
   * Renders one file. The returned data is `undefined` if the file is missing or rendering fails.
   */
  async load(
    sls: string,
    saltenv: string,
    defaults: PillarMap,
  ): Promise<{ readonly data: PlainData | undefined; readonly file: SourceFile | undefined }> {
    this.#count += 1;
    if (this.#count > maxSls) {
      throw new MasterError('ERR_PILLAR_FILE', `the pillar has more than ${maxSls} SLS`);
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
    if (!isKnown || this.#assignment.mayBeMissing.has(`${saltenv}:${sls}`)) return undefined;
    this.addError(
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
    this.addError(reason);
  }
}

/** Renders the SLS of one environment. Each SLS is rendered once. */
class EnvironmentRun {
  readonly #saltenv: string;
  readonly #compiler: PillarCompiler;
  /** Result of each rendered SLS by its name, without the data of the SLS that it includes. */
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
      this.#compiler.addError(`SLS '${sls}' does not render to a dictionary`);
    }
    if (!isPillarMap(data) || !data.has('include')) return this.#keep(sls, data, file);
    const include = data.get('include');
    if (!Array.isArray(include)) {
      this.#compiler.addError(`Include Declaration in SLS '${sls}' is not formed as a list`);
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

  /**
   * Renders included SLS.
   * @param place - SLS to which names with a leading dot are relative
   */
  async #included(
    include: readonly PlainData[],
    place: string,
    inherited: PillarMap,
  ): Promise<Rendered[]> {
    const parts: Rendered[] = [];
    // As in Salt, the defaults of an include also apply to the following includes without defaults.
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

/** Nests the data below a path of keys: for `a:b`, returns `{a: {b: data}}`. */
function under(key: string | undefined, data: PillarMap): PillarMap {
  if (key === undefined || key === '') return data;
  return key.split(':').reduceRight<PillarMap>((inner, part) => new Map([[part, inner]]), data);
}

/**
 * Adds the key `master` to a pillar. It contains the options of the master that minions may read.
 */
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
    ...inputsOf(base),
  };
}

function withMaster(pillar: FactMap, master: WireMap): FactMap {
  if (pillar instanceof Map) return new Map([...pillar, ['master', master]]);
  return Object.assign(Object.create(null), pillar, { master });
}
