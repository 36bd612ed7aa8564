/**
 * Renders the SLS of an orchestration and their includes to high data, with the master's own pillar.
 */

import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import { MasterError } from '#master';
import type { WireMap } from '#minion-protocol';
import { type PlainData, TemplateError } from '#template';
import { GrainReads, TracedGrains } from '../render/grains.ts';
import {
  fromWire,
  isList,
  isPillarMap,
  mergeDeep,
  type PillarMap,
  type PillarSource,
  type SourceFile,
  textOf,
  toWirePillar,
} from '../render/pillar-data.ts';
import {
  findSls,
  type PillarSources,
  Reads,
  SlsRenderer,
  type SlsRendering,
} from '../render/pillar-sources.ts';
import { saltFunctions } from '../render/template-functions.ts';
import {
  emptyHigh,
  firstOf,
  type High,
  mapOf,
  matchesGlob,
  mergeHigh,
  readDeclarations,
  type SlsPlace,
} from './high-data.ts';
import type { ConditionFunctions } from './run-chunks.ts';

// `include` [salt/state.py render_state].

/** What of the files matters here. */
interface SlsNames {
  /** The environments that there are. */
  envs(): readonly string[];
  /** Names of the SLS of an environment, sorted. */
  names(saltenv: string): Promise<ReadonlySet<string>>;
}

/** Where an SLS is included. */
interface IncludingSls extends SlsPlace {
  /** Its file is `…/init.sls`. */
  readonly isInit: boolean;
  /** The environment that the run is for. */
  readonly runEnv: string;
}

/** SLS to be rendered, or why there are none. */
type Included = readonly SlsPlace[] | { readonly error: string };

const ofTheRun = '_xenv';

async function resolveInclude(
  item: PlainData,
  from: IncludingSls,
  files: SlsNames,
): Promise<Included> {
  const [asked, written] = readItem(item, from);
  const place = `'${from.saltenv}:${from.sls}'`;
  if (asked !== ofTheRun && !files.envs().includes(asked)) {
    return {
      error: `Nonexistent saltenv '${asked}' found in include of '${written}' within SLS ${place}`,
    };
  }
  const sls = written.startsWith('.') ? relativeTo(from, written) : written;
  if (sls === undefined) {
    const reason = 'goes beyond top level package ';
    return { error: `Attempted relative include of '${written}' within SLS ${place} ${reason}` };
  }
  const saltenv = asked === ofTheRun ? from.runEnv : asked;
  const found = matching(await files.names(saltenv), sls);
  if (found.length === 0 && (asked === ofTheRun || saltenv !== from.runEnv)) {
    return {
      error: `Unknown include: Specified SLS ${asked}: ${sls} is not available on the salt master in saltenv(s): ${saltenv} `,
    };
  }
  return (found.length === 0 ? [sls] : found).map((name) => ({ sls: name, saltenv }));
}

/** The names that a glob means, in their order. */
function matching(names: ReadonlySet<string>, glob: string): string[] {
  if (names.has(glob)) return [glob];
  return [...names].filter((name) => matchesGlob(name, glob));
}

function readItem(item: PlainData, { saltenv }: SlsPlace): readonly [saltenv: string, sls: string] {
  if (!isPillarMap(item)) return [saltenv, textOf(item)];
  const [[key, sls] = ['', '']] = item;
  return [textOf(key), textOf(sls)];
}

/** One dot is the package of the SLS, each more one above it. `undefined`: there is none. */
function relativeTo({ sls, isInit }: IncludingSls, written: string): string | undefined {
  const [dots = ''] = /^\.+/.exec(written) ?? [];
  const parts = [...sls.split('.'), ...(isInit ? ['init'] : [])];
  if (dots.length > parts.length) return undefined;
  return [...parts.slice(0, -dots.length), written.slice(dots.length)].join('.');
}

// Rendering of SLS with their includes [salt/state.py render_highstate, render_state].

/** What the SLS of one run are rendered from and with. */
interface HighRenderingOptions {
  readonly sources: PillarSources;
  readonly setting: SlsRendering;
  /** The environments that there are. */
  readonly envs: () => readonly string[];
  readonly signal: AbortSignal;
}

/** SLS of one run, included ones counted. */
const maxSls = 1000;
/** How deep SLS may include each other. */
const maxDepth = 50;
/** Order of the first state that is given none. */
const firstOrder = 10_000;

/** Renders the SLS of one run. */
class HighRenderer implements SlsNames {
  readonly #options: HighRenderingOptions;
  readonly #reads: Reads;
  readonly #renderer: SlsRenderer;
  readonly #done = new Set<string>();
  readonly #errors: string[] = [];
  #runEnv = '';
  #order = firstOrder;

  constructor(options: HighRenderingOptions) {
    this.#options = options;
    this.#reads = new Reads(options.sources);
    this.#renderer = new SlsRenderer(options.setting, this.#reads);
  }

  envs(): readonly string[] {
    return this.#options.envs();
  }

  names(saltenv: string): Promise<ReadonlySet<string>> {
    return this.#reads.names(saltenv);
  }

  /**
   * @param mods names of SLS, or globs on them
   * @throws MasterError ERR_ORCHESTRATION for too many of them, ERR_MASTER_STOPPED
   */
  async render(
    saltenv: string,
    mods: readonly string[],
  ): Promise<{ readonly high: High; readonly errors: readonly string[] }> {
    const high = emptyHigh();
    this.#runEnv = saltenv;
    for (const pattern of mods) {
      for (const sls of await this.#meantBy(pattern, saltenv)) {
        if (this.#done.has(markOf({ sls, saltenv }))) continue;
        const before = this.#errors.length;
        mergeHigh(high, await this.#renderSls({ sls, saltenv }, 0), this.#errors);
        this.#rename(before, pattern, saltenv);
      }
    }
    return { high, errors: this.#errors };
  }

  /** What means none stays as it is, and will be missing. */
  async #meantBy(pattern: string, saltenv: string): Promise<readonly string[]> {
    if (!this.envs().includes(saltenv)) {
      this.#errors.push(`No matching salt environment for environment '${saltenv}' found`);
      return [pattern];
    }
    const found = matching(await this.names(saltenv), pattern);
    return found.length === 0 ? [pattern] : found;
  }

  /** Of what was asked for by name, Salt says in other words that it is missing. */
  #rename(from: number, pattern: string, saltenv: string): void {
    for (const [index, error] of this.#errors.entries()) {
      if (index < from || !error.includes('is not available')) continue;
      if (!error.includes(`SLS ${pattern} in saltenv`)) continue;
      this.#errors[index] = `No matching sls found for '${pattern}' in env '${saltenv}'`;
    }
  }

  async #renderSls(place: SlsPlace, depth: number): Promise<High> {
    this.#options.signal.throwIfAborted();
    if (this.#done.size >= maxSls) throw tooMuch(`more than ${maxSls} SLS`);
    if (depth > maxDepth) throw tooMuch(`includes deeper than ${maxDepth}`);
    this.#done.add(markOf(place));
    const { sls, saltenv } = place;
    const file = await this.#find(place);
    if (file === undefined) {
      this.#errors.push(
        `Specified SLS ${sls} in saltenv ${saltenv} is not available on the salt master or ` +
          'through a configured fileserver',
      );
      return emptyHigh();
    }
    return this.#readSls(file, place, depth);
  }

  async #find({ sls, saltenv }: SlsPlace): Promise<SourceFile | undefined> {
    return this.envs().includes(saltenv) ? findSls(this.#reads, sls, saltenv) : undefined;
  }

  async #readSls(file: SourceFile, place: SlsPlace, depth: number): Promise<High> {
    const data = await this.#data(file, place);
    if (data === undefined) return emptyHigh();
    if (!isPillarMap(data)) {
      this.#errors.push(
        `SLS ${place.sls} does not render to a dictionary`,
        `Error when rendering state with contents: ${textOf(data)}`,
      );
      return emptyHigh();
    }
    const { include, ...high } = readDeclarations(data, place, this.#errors);
    const from = { ...place, isInit: file.path.endsWith('/init.sls'), runEnv: this.#runEnv };
    for (const item of include) {
      const included = await resolveInclude(item, from, this);
      if ('error' in included) this.#errors.push(included.error);
      else for (const one of included) await this.#include(one, place, high, depth);
    }
    this.#giveOrder(high);
    return high;
  }

  async #data(file: SourceFile, place: SlsPlace): ReturnType<SlsRenderer['render']> {
    try {
      return await this.#renderer.render(file, { ...place, defaults: new Map() });
    } catch (error) {
      if (!(error instanceof TemplateError) && !(error instanceof MasterError)) throw error;
      const { sls, saltenv } = place;
      this.#errors.push(`Rendering SLS '${saltenv}:${sls}' failed: ${error.message}`);
      return new Map();
    }
  }

  async #include(place: SlsPlace, by: SlsPlace, high: High, depth: number): Promise<void> {
    if (this.#done.has(markOf(place))) return;
    const included = await this.#renderSls(place, depth + 1);
    for (const [id, body] of included.bodies) {
      included.bodies.set(id, { ...body, includedFrom: [...body.includedFrom, by.sls] });
    }
    mergeHigh(high, included, this.#errors);
  }

  /** As they are written, after those that they include [_handle_iorder]. */
  #giveOrder(high: High): void {
    for (const [id, body] of high.bodies) {
      const states = new Map(body.states);
      for (const [state, said] of states) {
        if (!isList(said) || said.some((argument) => firstOf(argument)?.[0] === 'order')) continue;
        states.set(state, [...said, mapOf('order', this.#order)]);
        this.#order += 1;
      }
      high.bodies.set(id, { ...body, states });
    }
  }
}

function markOf({ sls, saltenv }: SlsPlace): string {
  return `${saltenv}:${sls}`;
}

function tooMuch(what: string): MasterError {
  return new MasterError('ERR_ORCHESTRATION', `an orchestration has ${what}`);
}

/** Where SLS come from, and with what they are rendered. */
export interface SlsFiles {
  /** `id` of the master; what it returns is told under it. */
  readonly masterId: string;
  readonly sources: PillarSources;
  /** The environments that there are. */
  readonly envs: () => readonly string[];
  readonly pillar: PillarSource;
  /** What is the same for all files. */
  readonly rules: () => SlsRules;
  readonly log: Logger;
}

/** What is the same for all files. */
type SlsRules = Omit<SlsRendering, 'id' | 'grains' | 'opts' | 'pillar' | 'foreign'>;

/** Which SLS. */
export interface SlsRequest {
  /** Names, or globs on them. */
  readonly mods: readonly string[];
  readonly saltenv: string;
  readonly pillarenv: string | undefined;
  /** Put over the pillar of the master: data for the files, never a template. */
  readonly pillar: PillarMap;
  /** Whether whoever gives it may do everything: else its words are values, whatever they say. */
  readonly isTrusted: boolean;
  /** What templates see as `opts.test`. */
  readonly test: boolean;
}

/** What SLS say. */
export interface Compilation {
  readonly high: High;
  /** What is wrong with them, in Salt's words. */
  readonly errors: readonly string[];
  readonly conditions: ConditionFunctions;
}

/** @throws MasterError ERR_ORCHESTRATION; what the signal says */
export async function compileSls(
  files: SlsFiles,
  request: SlsRequest,
  signal: AbortSignal,
): Promise<Compilation> {
  const { saltenv, mods } = request;
  const { setting, errors } = await openSetting(files, request);
  const conditions = conditionsOf(setting);
  if (errors.length > 0) {
    const all = ['Pillar failed to render with the following messages:', ...errors];
    return { high: emptyHigh(), errors: all, conditions };
  }
  const { sources, envs } = files;
  const renderer = new HighRenderer({ sources, setting, envs, signal });
  return { ...(await renderer.render(saltenv, mods)), conditions };
}

/** What SLS are rendered with, and what conditions look at. */
export async function openSetting(
  { masterId: id, pillar: source, rules }: SlsFiles,
  { saltenv, pillarenv, pillar: given, isTrusted, test }: Omit<SlsRequest, 'mods'>,
): Promise<{ readonly setting: SlsRendering; readonly errors: readonly string[] }> {
  const grains: WireMap = { id };
  const answer = await source.provide({ id, grains, saltenv, pillarenv });
  const own = fromWire(answer.pillar);
  const pillar = isPillarMap(own) ? mergeDeep(own, given, false) : given;
  const errors = pillar.get('_errors');
  const opts = { id, saltenv, pillarenv, test, file_client: 'local' };
  return {
    setting: { ...rules(), id, grains, opts, pillar, ...(isTrusted ? {} : foreignWords(given)) },
    errors: isList(errors) ? errors.map(textOf) : [],
  };
}

function foreignWords(given: PillarMap): Pick<SlsRendering, 'foreign'> {
  const secret = randomBytes(12).toString('hex');
  return { foreign: { words: { pillar: toWirePillar(given) }, secret } };
}

export function conditionsOf(setting: SlsRendering): ConditionFunctions {
  const grains = new TracedGrains(setting.grains, new GrainReads());
  return saltFunctions({ grains, setting });
}
