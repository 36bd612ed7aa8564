/** Pillar of the files in `pillar_roots`. */

import { hash } from 'node:crypto';
import type { Logger } from 'pino';
import type { MasterConfig } from '#config';
import { type PillarInputs, type PillarRequest, SlowPatternRunner, version } from '#master';
import { packLocal, type WireMap } from '#minion-protocol';
import type { AskedFunctions } from '../render/asked-functions.ts';
import { isGiven, takes, text } from '../render/function-arguments.ts';
import type { PillarMap } from '../render/pillar-data.ts';
import type {
  CompiledPillar,
  OnDemandPillar,
  PillarAnswer,
  PillarSource,
} from '../render/pillar-source.ts';
import type { PillarRules, PillarSetting, PillarSources } from '../render/pillar-sources.ts';
import { toWirePillar } from '../render/pillar-wire.ts';
import { type CacheDependencies, Reads } from '../render/reads.ts';
import { ParsedFileCache, Renderer, renderMs } from '../render/renderer.ts';
import { compilePillar } from './compile-pillar.ts';
import type { PersistentPillarCache } from './persistent-pillars.ts';
import { PillarCache, type PillarKey } from './pillar-cache.ts';
import { withoutClaims } from './pillar-calls.ts';
import { pillarInputs } from './pillar-inputs.ts';
import { answerOf, PillarSharing, type ProvidedPillar } from './pillar-sharing.ts';
import type { ResultStore } from './shared-results.ts';

/** Options of `MasterConfig` that affect pillar. */
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
  | 'pillarLateGrains'
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
> & {
  readonly limits: Pick<MasterConfig['limits'], 'pillarSteps'>;
  /** Options of the master that templates may read. Default: none. */
  readonly masterOptions?: WireMap;
};

/** Services, caches and callbacks that {@link OwnPillar} uses. */
export interface PillarDeps {
  readonly log: Logger;
  /** Clock: returns the current time in milliseconds since 1970. */
  readonly now: () => number;
  /** Cache that persists across restarts of the master. Default: none. */
  readonly persistent?: PersistentPillarCache | undefined;
  /** Store of shared pillars. Default: they do not persist. */
  readonly shared?: ResultStore | undefined;
  /** Whether minions with equal inputs share pillars. Default: true. */
  readonly isShared?: boolean;
  /** Called for each compiled pillar. */
  readonly onRendered?: () => void;
  /** Called with the source of each pillar that a minion gets. */
  readonly onProvided?: (source: PillarSourceKind) => void;
  /** Renderer, which is closed together with the pillar. Default: a new one. */
  readonly rendering?: Renderer;
  /** Files of `file_roots` that templates may read. Default: none. */
  readonly files?: PillarSources | undefined;
  /** Template functions that the master executes. Default: none. */
  readonly asked?: AskedFunctions;
  /** Functions that compile a pillar with additional sources. Default: none. */
  readonly onDemand?: OnDemandPillar;
  /** Returns whether pillars of this id are cached. Default: pillars of every id are cached. */
  readonly isKept?: (id: string) => boolean;
}

/** Source of a pillar: the cache of the minion, a shared pillar, or a rendering. */
export type PillarSourceKind = 'own' | 'shared' | 'rendered';

/** Maximum number of stored errors. They are stored so that each error is logged only once. */
const maxLogged = 1000;
const anyEnv = '__env__';

/** Compiles pillars from files and caches them. */
export class OwnPillar implements PillarSource {
  #config: PillarConfig;
  readonly #sources: PillarSources;
  readonly #surroundings: PillarDeps;
  readonly #cache: PillarCache;
  readonly #sharing: PillarSharing;
  readonly #rendering: Renderer;
  readonly #data: ParsedFileCache;
  readonly #slowPatterns: SlowPatternRunner = new SlowPatternRunner();
  readonly #logged = new Set<string>();
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
    this.#sharing = new PillarSharing({
      sources,
      persistent: surroundings.shared,
      lateGrains: config.pillarLateGrains,
      now: surroundings.now,
      onCompiled: (compiled, minion) => this.#noteCompiled(compiled, minion),
      onUnstored: (err, minion) => {
        surroundings.log.error({ minion, err }, 'cannot store a pillar that several minions share');
      },
    });
  }

  /** Number of files parsed since the start. */
  get parsed(): number {
    return this.#sources.parsed;
  }

  /** Number of pillars compiled since the start. Cache hits are not counted. */
  get made(): number {
    return this.#made;
  }

  /**
   * Returns a minion's pillar. Errors of its files are in `_errors`.
   * @param lower - data of the external pillar. Data from pillar files override them. Default:
   * empty
   * @param provenLower - part of `lower` that does not depend on grains. Default: the same
   */
  async provide(
    request: PillarRequest,
    lower: PillarMap = new Map(),
    provenLower: PillarMap = lower,
  ): Promise<PillarAnswer> {
    const { id, saltenv, pillarenv } = request;
    const isProven = provenLower === lower;
    const mark = isProven ? markOf(lower) : `${markOf(lower)} ${markOf(provenLower)}`;
    const key = { id, saltenv, pillarenv, lower: mark, rules: this.#rulesMark };
    const kept = await this.#find(key, request);
    if (kept !== undefined) {
      this.#note('own');
      return kept;
    }
    const provided = isProven ? await this.#share(key, request, lower) : undefined;
    if (provided !== undefined) {
      const { answer, isShared, own } = provided;
      this.#note(isShared ? 'shared' : 'rendered');
      if (own !== undefined) this.#keep(key, answer, own);
      return answer;
    }
    const reads = new Reads(this.#sources);
    const answer = await this.#make(request, { lower, provenLower }, reads);
    this.#note('rendered');
    if (!reads.isVolatile) this.#keep(key, answer, reads.madeFrom);
    return answer;
  }

  /** Deletes the cached pillars of a minion, and the shared ones that were rendered for it. */
  forget(id: string): void {
    const forgetting = Promise.all([this.#cache.forget(id), this.#sharing.forget(id)]);
    this.#logFailure(forgetting, id, 'cannot delete a cached pillar');
  }

  /**
   * Returns the number of cached pillars, and the grains that they depend on. For each grain,
   * returns the number of distinct values.
   */
  async inputs(): Promise<PillarInputs> {
    return pillarInputs(await this.#sharing.inputs(), this.#cache.kept());
  }

  /** Compiles a pillar without the cache. The result also contains the data of each file. */
  compile(request: PillarRequest, lower: PillarMap = new Map()): Promise<CompiledPillar> {
    return this.#compile(request, lower, new Reads(this.#sources));
  }

  /** Lists the files again, for example after links in the roots were replaced. */
  refresh(): Promise<void> {
    return this.#sources.refresh();
  }

  async close(): Promise<void> {
    await this.#rendering.close();
    await this.#sources.close();
  }

  /**
   * Replaces options that a reload can change. Cached pillars that were compiled with the previous
   * options are not used any more.
   */
  configure(changes: Pick<PillarConfig, 'nodegroups' | 'masterOptions'>): void {
    this.#config = { ...this.#config, ...changes };
    this.#rulesMark = markOfRules(this.#config);
  }

  async #find(key: PillarKey, { grains }: PillarRequest): Promise<PillarAnswer | undefined> {
    try {
      return await this.#cache.find(key, this.#trusted(key.id, grains));
    } catch (err) {
      this.#surroundings.log.error({ minion: key.id, err }, 'cannot read a cached pillar');
      return undefined;
    }
  }

  /**
   * Caches a pillar without waiting for the disk. If the write fails, the pillar is compiled again
   * later.
   */
  #keep(key: PillarKey, answer: PillarAnswer, madeFrom: CacheDependencies): void {
    if (!this.#isKept(key.id)) return;
    const keeping = this.#cache.keep(key, answer, madeFrom);
    this.#logFailure(keeping, key.id, 'cannot store a pillar in the cache');
  }

  #isKept(id: string): boolean {
    return this.#surroundings.isKept?.(id) ?? true;
  }

  #note(source: PillarSourceKind): void {
    this.#surroundings.onProvided?.(source);
  }

  async #share(
    key: PillarKey,
    request: PillarRequest,
    lower: PillarMap,
  ): Promise<ProvidedPillar | undefined> {
    if (this.#surroundings.isShared === false) return undefined;
    const setting = { ...this.#settingOf(request), pillar: lower };
    const proven = this.#provenSettingOf(request, lower);
    return this.#sharing.provide(key, { setting, proven, isKept: this.#isKept(key.id) });
  }

  #noteCompiled(compiled: CompiledPillar, minion: string): void {
    this.#made += 1;
    this.#surroundings.onRendered?.();
    this.#logErrors(compiled, minion);
  }

  #logFailure(work: Promise<unknown>, minion: string, message: string): void {
    work.catch((err: unknown) => this.#surroundings.log.error({ minion, err }, message));
  }

  #compile(request: PillarRequest, lower: PillarMap, reads: Reads): Promise<CompiledPillar> {
    return compilePillar({ ...this.#settingOf(request), pillar: lower }, reads);
  }

  async #make(
    request: PillarRequest,
    { lower, provenLower }: { readonly lower: PillarMap; readonly provenLower: PillarMap },
    reads: Reads,
  ): Promise<PillarAnswer> {
    const compiled = await this.#compile(request, lower, reads);
    this.#noteCompiled(compiled, request.id);
    const pillar = await answerOf(compiled, request.id);
    // Results of master functions may contain data of minions. Both versions of the pillar are
    // equal only if neither these results nor grains were used.
    const isProven = provenLower === lower && reads.grains.isEmpty && !reads.isVolatile;
    if (isProven) return { pillar, proven: pillar };
    const beside = reads.beside();
    const proven = await compilePillar(this.#provenSettingOf(request, provenLower), beside);
    if (beside.isVolatile) reads.isVolatile = true;
    return { pillar, proven: await answerOf(proven, request.id) };
  }

  /**
   * Returns the settings for compiling the pillar that a minion would get if the master did not
   * know its grains.
   */
  #provenSettingOf(request: PillarRequest, lower: PillarMap): PillarSetting {
    const { asked, ...setting } = this.#settingOf({ ...request, grains: { id: request.id } });
    return { ...setting, asked: withoutClaims(asked), pillar: lower };
  }

  /** Logs each error of a pillar once, even if it affects many minions. */
  #logErrors({ errors, failures }: CompiledPillar, minion: string): void {
    const { log } = this.#surroundings;
    const causes = failures.map((err) => ({ mark: String(err), fields: { minion, err } }));
    const others = errors.map((error) => ({ mark: error, fields: { minion, reason: error } }));
    for (const { mark, fields } of [...causes, ...others]) {
      if (this.#logged.has(mark)) continue;
      if (this.#logged.size >= maxLogged) this.#logged.clear();
      this.#logged.add(mark);
      log.error(fields, 'pillar has errors');
    }
  }

  /** Returns the grains on which the pillar of a minion may depend. */
  #trusted(id: string, grains: WireMap): WireMap {
    return this.#config.pillarTrustsGrains ? grains : { id };
  }

  #settingOf({
    id,
    grains,
    saltenv,
    pillarenv: asked,
  }: PillarRequest): Omit<PillarSetting, 'pillar'> {
    const config = this.#config;
    const pillarenv = asked ?? config.pillarenv ?? undefined;
    const envs = environments(config.pillarRoots, pillarenv ?? saltenv ?? 'base');
    const { files, asked: functions = {}, onDemand, now } = this.#surroundings;
    const trusted = this.#trusted(id, grains);
    return {
      ...rulesOf(config),
      id,
      grains: trusted,
      saltenv,
      pillarenv,
      ...envs,
      files,
      asked: {
        ...functions,
        ...this.#ownFunctions(envs.rooted),
        ...onDemand?.({ id, grains: trusted, saltenv }, 'pillar'),
      },
      opts: { id, minion_id: id, saltenv, pillarenv, file_client: 'local' },
      rendering: this.#rendering,
      data: this.#data,
      slowPatterns: this.#slowPatterns,
      now,
    };
  }

  /**
   * Returns the template functions that exist in pillar files only [salt/modules/pillar.py
   * file_exists].
   */
  #ownFunctions(envs: ReadonlySet<string>): AskedFunctions {
    return {
      'pillar.file_exists': takes(['path', 'saltenv'], async ({ path, saltenv }) => {
        const wanted = [...envs].filter((env) => !isGiven(saltenv) || env === saltenv);
        const place = text(path, 'path');
        const digests = wanted.map((env) => this.#sources.digest(place, env));
        return (await Promise.all(digests)).some((digest) => digest !== undefined);
      }),
    };
  }
}

/** Returns a digest of data, to recognise equal data. The digest does not reveal the data. */
function markOf(lower: PillarMap): string {
  if (lower.size === 0) return '';
  return hash('sha256', packLocal(toWirePillar(lower)));
}

/**
 * Returns a digest of the pillar options and the program version. Two digests are equal if the
 * options and the version are equal.
 */
function markOfRules(config: PillarConfig): string {
  const { pillarRoots, pillarTrustsGrains } = config;
  const all = [version, rulesOf(config), pillarRoots, pillarTrustsGrains];
  return hash('sha256', JSON.stringify(all));
}

/** Returns the operator's rules for compiling pillars, from the configuration. */
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
    masterOptions: config.masterOptions ?? {},
    limits: { steps: config.limits.pillarSteps, milliseconds: renderMs },
  };
}

/**
 * Returns the environments that a request uses. If `pillar_roots` does not contain the requested
 * environment, the roots of `__env__` are used for it.
 */
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
