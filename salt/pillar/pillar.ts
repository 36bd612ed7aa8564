import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import {
  type GitPillarEntry,
  gitPillarRemotesOf,
  type LiveConfig,
  type MasterConfig,
} from '#config';
import {
  type Auth,
  type ExtPillar,
  type KnownFacts,
  type MasterContext,
  MasterError,
  type PillarApi,
  type PillarDifference,
  type PillarOrigin,
  type PillarProvider,
  type PillarRequest,
  SlowPatternRunner,
  version,
} from '#master';
import {
  type FactMap,
  isWireMap,
  packLocal,
  traverseFacts,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { hiddenDirectories } from '../file-trees/file-server.ts';
import type { GitMirrors } from '../file-trees/git-mirror.ts';
import { openRoots } from '../file-trees/roots.ts';
import {
  type CompiledPillar,
  type PillarAnswer,
  type PillarLayer,
  type PillarMap,
  type PillarSource,
  toWire,
  toWirePillar,
} from '../render/pillar-data.ts';
import {
  type PillarRules,
  type PillarSetting,
  PillarSources,
  Reads,
} from '../render/pillar-sources.ts';
import { ParsedFileCache, Renderer, renderMs } from '../render/renderer.ts';
import { compilePillar, withMasterOptions } from './compile-pillar.ts';
import {
  type ExtPillarLayer,
  openExtPillars,
  withAddedPillar,
  withExtPillar,
} from './ext-pillar.ts';
import { openGitPillar } from './git-pillar.ts';
import { PersistentPillarCache, PillarCache, type PillarKey } from './pillar-cache.ts';

/** The pillar of a program, which answers for what it makes of a minion's grains. */
export function fromProvider(provider: PillarProvider): PillarSource {
  return {
    provide: async (request) => {
      const pillar = await provider(request);
      return { pillar, proven: pillar };
    },
  };
}

/** A pillar file by file. @throws MasterError ERR_NOT_SERVED where a program gives it */
export async function compiledOf(
  pillar: PillarSource,
  request: PillarRequest,
): Promise<CompiledPillar> {
  if (pillar.compile !== undefined) return pillar.compile(request);
  throw new MasterError('ERR_NOT_SERVED', 'pillar comes from a program here, and not from files');
}

// Pillar of `pillar_roots`.

/** Options of `MasterConfig` that pillar goes by. */
export type PillarConfig = Pick<
  MasterConfig,
  | 'pillarRoots'
  | 'pillarenv'
  | 'pillarSourceMergingStrategy'
  | 'pillarMergeLists'
  | 'pillarIncludesOverrideSls'
  | 'pillarSafeRenderError'
  | 'pillarRaiseOnMissing'
  | 'pillarTrustsGrains'
  | 'stateTop'
  | 'renderer'
  | 'jinjaTrimBlocks'
  | 'jinjaLstripBlocks'
  | 'nodegroups'
  | 'fileIgnoreGlob'
  | 'fileIgnoreRegex'
  | 'fileserverFollowsymlinks'
  | 'fileserverIgnoresymlinks'
  | 'fileserverListCacheTime'
  | 'pkiDir'
  | 'stateDir'
  | 'cachedir'
> & { readonly limits: Pick<MasterConfig['limits'], 'pillarSteps'> };

/** What else it is opened with. */
export interface PillarDeps {
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Where pillars outlive the master. Default: nowhere. */
  readonly persistent?: PersistentPillarCache | undefined;
  /** Closed with the pillar. Default: one of its own. */
  readonly rendering?: Renderer;
  /** Whether what was made for an id is kept. Default: of all. */
  readonly isKept?: (id: string) => boolean;
}

/** Messages that are remembered as told. */
const maxTold = 1000;
const anyEnv = '__env__';

/** Makes pillars of files, or gives those that were made from the same. */
export class OwnPillar implements PillarSource {
  #config: PillarConfig;
  readonly #sources: PillarSources;
  readonly #surroundings: PillarDeps;
  readonly #cache: PillarCache;
  readonly #rendering: Renderer;
  readonly #data: ParsedFileCache;
  readonly #slowPatterns: SlowPatternRunner = new SlowPatternRunner();
  readonly #told = new Set<string>();
  #rulesMark: string;
  #made = 0;

  constructor(config: PillarConfig, sources: PillarSources, surroundings: PillarDeps) {
    this.#config = config;
    this.#rulesMark = markOfRules(config);
    this.#sources = sources;
    this.#surroundings = surroundings;
    this.#rendering = surroundings.rendering ?? new Renderer();
    this.#data = new ParsedFileCache(this.#rendering);
    this.#cache = new PillarCache({ sources, persistent: surroundings.persistent });
  }

  /** How many files were parsed since the start. */
  get parsed(): number {
    return this.#sources.parsed;
  }

  /** How many pillars were made since the start, those that were kept not counted. */
  get made(): number {
    return this.#made;
  }

  /** A minion's pillar, with `_errors` where something is wrong with its files. */
  async provide(request: PillarRequest, lower: PillarMap = new Map()): Promise<PillarAnswer> {
    const { id, saltenv, pillarenv } = request;
    const key = { id, saltenv, pillarenv, lower: markOf(lower), rules: this.#rulesMark };
    const kept = await this.#find(key, request);
    if (kept !== undefined) return kept;
    const reads = new Reads(this.#sources);
    const answer = await this.#make(request, lower, reads);
    this.#keep(key, answer, reads);
    return answer;
  }

  /** Forgets what was made for a minion. */
  forget(id: string): void {
    this.#tellFailure(this.#cache.forget(id), id, 'pillar was not forgotten');
  }

  /** A pillar as it is made, file by file; nothing of it is kept. */
  compile(request: PillarRequest, lower: PillarMap = new Map()): Promise<CompiledPillar> {
    return this.#compile(request, lower, new Reads(this.#sources));
  }

  async close(): Promise<void> {
    await this.#rendering.close();
    await this.#sources.close();
  }

  /** Goes by other nodegroups, which top files name: what was made by those before is of no use. */
  useNodegroups(nodegroups: PillarConfig['nodegroups']): void {
    this.#config = { ...this.#config, nodegroups };
    this.#rulesMark = markOfRules(this.#config);
  }

  async #find(key: PillarKey, { grains }: PillarRequest): Promise<PillarAnswer | undefined> {
    try {
      return await this.#cache.find(key, grains);
    } catch (err) {
      this.#surroundings.log.error({ minion: key.id, err }, 'kept pillar was not found');
      return undefined;
    }
  }

  /** Nobody waits for the disk: what is lost there is made again. */
  #keep(key: PillarKey, answer: PillarAnswer, { isVolatile, madeFrom }: Reads): void {
    const { isKept = () => true } = this.#surroundings;
    if (isVolatile || !isKept(key.id)) return;
    const keeping = this.#cache.keep(key, answer, madeFrom);
    this.#tellFailure(keeping, key.id, 'pillar was not kept');
  }

  #tellFailure(work: Promise<void>, minion: string, message: string): void {
    work.catch((err: unknown) => this.#surroundings.log.error({ minion, err }, message));
  }

  #compile(request: PillarRequest, lower: PillarMap, reads: Reads): Promise<CompiledPillar> {
    return compilePillar({ ...this.#settingOf(request), pillar: lower }, reads);
  }

  async #make(request: PillarRequest, lower: PillarMap, reads: Reads): Promise<PillarAnswer> {
    this.#made += 1;
    const compiled = await this.#compile(request, lower, reads);
    this.#tell(compiled, request.id);
    const pillar = answerOf(compiled);
    if (reads.grains.isEmpty) return { pillar, proven: pillar };
    const unclaimed = { ...request, grains: { id: request.id } };
    const beside = reads.beside();
    const proven = await this.#compile(unclaimed, lower, beside);
    if (beside.isVolatile) reads.isVolatile = true;
    return { pillar, proven: answerOf(proven) };
  }

  /** The same fault of a file is told once, however many minions meet it. */
  #tell({ errors, failures }: CompiledPillar, minion: string): void {
    const { log } = this.#surroundings;
    const causes = failures.map((err) => ({ mark: String(err), fields: { minion, err } }));
    const others = errors.map((error) => ({ mark: error, fields: { minion, reason: error } }));
    for (const { mark, fields } of [...causes, ...others]) {
      if (this.#told.has(mark)) continue;
      if (this.#told.size >= maxTold) this.#told.clear();
      this.#told.add(mark);
      log.error(fields, 'pillar has errors');
    }
  }

  #settingOf({
    id,
    grains,
    saltenv,
    pillarenv: asked,
  }: PillarRequest): Omit<PillarSetting, 'pillar'> {
    const config = this.#config;
    const pillarenv = asked ?? config.pillarenv ?? undefined;
    return {
      ...rulesOf(config),
      id,
      grains: config.pillarTrustsGrains ? grains : { id },
      saltenv,
      pillarenv,
      ...environments(config.pillarRoots, pillarenv ?? saltenv ?? 'base'),
      opts: { id, minion_id: id, saltenv, pillarenv, file_client: 'local' },
      rendering: this.#rendering,
      data: this.#data,
      slowPatterns: this.#slowPatterns,
      now: this.#surroundings.now,
    };
  }
}

/** The same for the same data, and of no use to who would read it. */
function markOf(lower: PillarMap): string {
  if (lower.size === 0) return '';
  return createHash('sha256')
    .update(packLocal(toWirePillar(lower)))
    .digest('hex');
}

/** The same for the same options of the same program. */
function markOfRules(config: PillarConfig): string {
  const { pillarRoots, pillarTrustsGrains } = config;
  const all = [version, rulesOf(config), pillarRoots, pillarTrustsGrains];
  return createHash('sha256').update(JSON.stringify(all)).digest('hex');
}

/** What the operator decided. */
function rulesOf(config: PillarConfig): PillarRules {
  return {
    strategy: config.pillarSourceMergingStrategy,
    mergeLists: config.pillarMergeLists,
    includesOverride: config.pillarIncludesOverrideSls,
    isErrorSafe: config.pillarSafeRenderError,
    raisesOnMissing: config.pillarRaiseOnMissing,
    top: config.stateTop.replace(/^salt:\/\/|^\//, ''),
    renderer: config.renderer,
    trimBlocks: config.jinjaTrimBlocks,
    lstripBlocks: config.jinjaLstripBlocks,
    nodegroups: config.nodegroups,
    limits: { steps: config.limits.pillarSteps, milliseconds: renderMs },
  };
}

/** `__env__` stands for the one environment that is asked for, where that has no roots of its own. */
function environments(
  roots: PillarConfig['pillarRoots'],
  asked: string,
): Pick<PillarSetting, 'envs' | 'rooted'> {
  const named = Object.keys(roots).filter((env) => env !== anyEnv);
  const isOther = Object.hasOwn(roots, anyEnv) && !Object.hasOwn(roots, asked);
  const rooted = named.filter((env) => (roots[env] ?? []).length > 0);
  return {
    envs: [...new Set(['base', ...named, ...(isOther ? [asked] : [])])],
    rooted: new Set(isOther ? [...rooted, asked] : rooted),
  };
}

function answerOf({ pillar, errors }: CompiledPillar): PillarAnswer['pillar'] {
  return toWirePillar(errors.length === 0 ? pillar : new Map([...pillar, ['_errors', errors]]));
}

// Opening: pillar of files or of a program, merged with `ext_pillar`.

/** What a program and extensions give minions besides the files of the configuration. */
export interface PillarOfProgram {
  /** Default: that of the files below `pillar_roots`. */
  readonly pillar?: PillarProvider | undefined;
  /** Put over that pillar, in this order. */
  readonly extPillar: readonly ExtPillar[];
  /** Put over all of it. Extensions add theirs while they are opened. */
  readonly added: readonly ExtPillar[];
}

export interface PillarSourceDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly auth: Auth;
  readonly mirrors: GitMirrors;
}

/** Opens the pillar files of a configuration. The caller closes it. */
export async function openPillar(
  config: PillarConfig,
  surroundings: PillarDeps,
): Promise<OwnPillar> {
  const hidden = hiddenDirectories(config);
  const { log } = surroundings;
  const backend = await openRoots(
    { ...config, fileRoots: config.pillarRoots },
    { hidden, logger: log },
  );
  const sources = new PillarSources({
    backend,
    trimBlocks: config.jinjaTrimBlocks,
    lstripBlocks: config.jinjaLstripBlocks,
  });
  return new OwnPillar(config, sources, surroundings);
}

/**
 * A program's pillar where there is one, else that of the configuration's files; those of
 * `ext_pillar` over or under it, and a program's own sources over all.
 */
export async function openPillarSource(
  deps: PillarSourceDeps,
  { pillar, extPillar, added }: PillarOfProgram,
): Promise<PillarSource> {
  const { config, context } = deps;
  const log = context.log.child({ component: 'pillar' });
  const rendering = context.closers.add(new Renderer(), (it) => it.close());
  const base =
    pillar === undefined
      ? await openLastingPillar(deps, { log, now: context.now, rendering })
      : fromProvider(pillar);
  const { fixed } = config;
  const { pillarSourceMergingStrategy: strategy, pillarMergeLists: mergeLists } = fixed;
  const merge = { strategy, mergeLists, log };
  const reader = new ParsedFileCache(rendering);
  const configured = withExtPillar(base, {
    ...merge,
    sources: await openExtPillars(fixed.extPillar, reader, (entry) =>
      openGitEntry(entry, deps, { log, now: context.now, rendering }),
    ),
    areFirst: fixed.extPillarFirst,
  });
  const whole = withAddedPillar(configured, { ...merge, sources: extPillar, added });
  return fixed.pillarOpts ? withMasterOptions(whole, config) : whole;
}

/** Pillar of repositories. It is kept in memory alone. */
async function openGitEntry(
  { remotes }: GitPillarEntry,
  { config, context, auth, mirrors }: PillarSourceDeps,
  surroundings: PillarDeps,
): Promise<readonly ExtPillarLayer[]> {
  const { fixed } = config;
  const { keys } = auth;
  const isKept = (id: string): boolean => keys.get(id) !== undefined;
  const layers = await openGitPillar(gitPillarRemotesOf(remotes, fixed), {
    mirrors,
    includes: fixed.gitPillarIncludes,
    pillarenv: fixed.pillarenv,
    openPillar: (backend, env) => {
      const options = { ...fixed, ...config.current, limits: fixed.limits };
      const pillar = new OwnPillar(
        { ...options, pillarRoots: { [env]: ['git'] } },
        new PillarSources({
          backend,
          trimBlocks: fixed.jinjaTrimBlocks,
          lstripBlocks: fixed.jinjaLstripBlocks,
        }),
        { ...surroundings, isKept },
      );
      config.onChange((current) => pillar.useNodegroups(current.nodegroups));
      return pillar;
    },
  });
  const unsubscribe = keys.onChange(({ id }) => {
    if (!isKept(id)) for (const layer of layers) layer.forget?.(id);
  });
  context.closers.add(unsubscribe, (it) => it());
  return layers;
}

/** The pillar files of a master: what was made before a restart is good after it. */
async function openLastingPillar(
  { config, context, auth }: PillarSourceDeps,
  surroundings: PillarDeps,
): Promise<OwnPillar> {
  const { ownStore: store, closers } = context;
  const { keys, seal } = auth;
  const hasKey = (id: string): boolean => keys.get(id) !== undefined;
  const { minionDataCache } = config.fixed;
  if (!minionDataCache) await PersistentPillarCache.clear(store);
  const persistent = minionDataCache
    ? await PersistentPillarCache.open({ store, seal, hasKey })
    : undefined;
  const { nodegroups } = config.current;
  const pillar = await openPillar(
    { ...config.fixed, nodegroups },
    { ...surroundings, persistent, isKept: hasKey },
  );
  config.onChange((current) => pillar.useNodegroups(current.nodegroups));
  const unsubscribe = keys.onChange(({ id }) => {
    // protection: pillar-outlives-key
    if (!hasKey(id)) pillar.forget(id);
  });
  closers.add(pillar, (it) => {
    unsubscribe();
    return it.close();
  });
  return pillar;
}

/** The value at a path of keys (`a:b`); of the empty path, all of it. */
function valueAt(data: WireValue, path: string): WireValue | undefined {
  return path === '' ? data : traverseFacts(data, path.split(':'));
}

/** Where a value comes from. */
export interface PillarOrigins {
  /** In the order in which they lie over each other. */
  readonly files: PillarOrigin[];
  /** How many more lie under them. */
  readonly omitted: number;
}

/** Files that an explanation names. */
const maxFiles = 200;

/** The files that give something at a path, each where it lies uppermost. */
export function originsOf(layers: readonly PillarLayer[], path: string): PillarOrigins {
  const files: PillarOrigin[] = [];
  const seen = new Set<string>();
  for (const layer of layers.toReversed()) {
    const mark = `${layer.saltenv}\0${layer.sls}`;
    if (seen.has(mark)) continue;
    const value = valueAt(toWire(layer.data), path);
    if (value === undefined) continue;
    seen.add(mark);
    if (files.length < maxFiles) files.push(originOf(layer, path, value));
  }
  return { files: files.reverse(), omitted: seen.size - files.length };
}

function originOf(
  { saltenv, sls, file }: PillarLayer,
  path: string,
  value: WireValue,
): PillarOrigin {
  const line = lineOf(file.text, path);
  return { saltenv, sls, file: file.path, ...(line === undefined ? {} : { line }), value };
}

function lineOf(text: string, path: string): number | undefined {
  const key = path.split(':').at(-1) ?? '';
  const lines = text.split('\n');
  const found = lines.flatMap((line, index) => (keyOf(line) === key ? [index + 1] : []));
  return found.length === 1 ? found[0] : undefined;
}

/** The key that a line of YAML or JSON begins with. */
function keyOf(line: string): string | undefined {
  const form = /^[\s-]*(?:"([^"]+)"|'([^']+)'|([^\s"'#:{][^:]*))\s*:(?:\s|$)/;
  const [, double, single, plain] = form.exec(line) ?? [];
  return double ?? single ?? plain?.trimEnd();
}

/** All values that differ, maps level by level, in the order of their paths. */
function differences(before: WireValue, after: WireValue, path = ''): PillarDifference[] {
  const [left, right] = [entriesOf(before), entriesOf(after)];
  if (left === undefined || right === undefined) {
    return isDeepStrictEqual(before, after) ? [] : [{ path, before, after }];
  }
  const names = [...new Set([...left.keys(), ...right.keys()])].sort();
  return names.flatMap((name) => {
    const inner = path === '' ? name : `${path}:${name}`;
    const [was, is] = [left.get(name), right.get(name)];
    if (was === undefined) return is === undefined ? [] : [{ path: inner, after: is }];
    return is === undefined ? [{ path: inner, before: was }] : differences(was, is, inner);
  });
}

function entriesOf(value: WireValue): ReadonlyMap<string, WireValue> | undefined {
  if (value instanceof Map) return new Map([...value].map(([key, inner]) => [String(key), inner]));
  return isWireMap(value) ? new Map(Object.entries(value)) : undefined;
}

// The interface `pillar`.

export interface PillarApiDeps {
  readonly pillar: PillarSource;
  readonly facts: KnownFacts;
}

export function createPillarApi({ pillar, facts }: PillarApiDeps): PillarApi {
  return {
    show: async (question) => (await pillar.provide(pillarRequestOf(facts, question))).pillar,
    explain: async ({ key = '', ...question }) => {
      const request = pillarRequestOf(facts, question);
      const { layers } = await compiledOf(pillar, request);
      const { pillar: whole, proven } = await pillar.provide(request);
      const [value = null, provenValue = null] = [valueAt(whole, key), valueAt(proven, key)];
      const followsFromGrains = differences(provenValue, value).length > 0;
      return { value, followsFromGrains, ...originsOf(layers, key) };
    },
    diff: async (question) => {
      const { pillar: now } = await pillar.provide(pillarRequestOf(facts, question));
      return differences(facts.of(question.minion).pillar?.whole() ?? {}, now);
    },
  };
}

/** Who is asked about; as the minion itself would ask. */
interface Asked {
  readonly minion: string;
  readonly saltenv?: string | undefined;
  readonly pillarenv?: string | undefined;
}

/**
 * The request that a minion would send, with the grains that it sent last.
 * @param more put over them
 */
export function pillarRequestOf(
  facts: KnownFacts,
  { minion: id, saltenv, pillarenv }: Asked,
  more: WireMap = {},
): PillarRequest {
  const known = textKeys(facts.of(id).grains?.whole() ?? { fqdn: id });
  return { id, grains: { ...known, ...more, id }, saltenv, pillarenv };
}

/** The grains that can be asked for by name. */
function textKeys(map: FactMap): WireMap {
  if (!(map instanceof Map)) return map;
  return Object.fromEntries([...map].filter(([key]) => typeof key === 'string'));
}
