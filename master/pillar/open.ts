/** The pillar of a master's own files: `pillar_roots`, rendered for each minion. */
import type { Logger } from 'pino';
import type { Closers } from '../closers.ts';
import type { MasterConfig } from '../config/options.ts';
import { hiddenDirectories } from '../fileserver/open.ts';
import { openRoots } from '../fileserver/roots.ts';
import type { MasterParts } from '../master.ts';
import type { PillarRequest } from '../requests/pillar.ts';
import { SlowPatternRunner } from '../targeting/slow-patterns.ts';
import { fromProvider, type PillarAnswer, type PillarSource } from './answer.ts';
import { PillarCache } from './cache.ts';
import { type CompiledPillar, compilePillar } from './compile.ts';
import { withExtPillar } from './ext-pillar.ts';
import { Reads } from './reads.ts';
import { ParsedYaml } from './render-sls.ts';
import type { PillarRules, PillarSetting } from './setting.ts';
import { PillarSources } from './sources.ts';
import { toWirePillar } from './wire.ts';

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
  | 'limits'
  | 'fileIgnoreGlob'
  | 'fileIgnoreRegex'
  | 'fileserverFollowsymlinks'
  | 'fileserverIgnoresymlinks'
  | 'fileserverListCacheTime'
  | 'pkiDir'
  | 'stateDir'
  | 'cachedir'
>;

/** What else it is opened with. */
export interface PillarSurroundings {
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** From 0 to below 1. Default `Math.random`. */
  readonly random?: () => number;
}

/** Opens the pillar files of a configuration. The caller closes it. */
export async function openPillar(
  config: PillarConfig,
  surroundings: PillarSurroundings,
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

/** A program's pillar where there is one, else that of the configuration's files; others over it. */
export async function openPillarSource(
  config: PillarConfig,
  { pillar, extPillar = [] }: Pick<MasterParts, 'pillar' | 'extPillar'>,
  surroundings: PillarSurroundings & { readonly closers: Closers },
): Promise<PillarSource> {
  const { closers, log } = surroundings;
  const base =
    pillar === undefined
      ? closers.add(await openPillar(config, surroundings), (it) => it.close())
      : fromProvider(pillar);
  const { strategy, mergeLists } = rulesOf(config);
  return withExtPillar(base, { sources: extPillar, strategy, mergeLists, log });
}

/**
 * What the steps foresee badly, for instance regular expressions over long texts. Far more than
 * any file takes, so that a busy machine fails none.
 */
export const renderMs = 1000;

/** Messages that are remembered as told. */
const maxTold = 1000;
const anyEnv = '__env__';

/** Makes pillars of files, or gives those that were made from the same. */
export class OwnPillar implements PillarSource {
  readonly #config: PillarConfig;
  readonly #sources: PillarSources;
  readonly #surroundings: PillarSurroundings;
  readonly #cache: PillarCache = new PillarCache();
  readonly #yaml: ParsedYaml = new ParsedYaml();
  readonly #slowPatterns: SlowPatternRunner = new SlowPatternRunner();
  readonly #told = new Set<string>();
  #nodegroups: PillarConfig['nodegroups'];
  #made = 0;

  constructor(config: PillarConfig, sources: PillarSources, surroundings: PillarSurroundings) {
    this.#config = config;
    this.#nodegroups = config.nodegroups;
    this.#sources = sources;
    this.#surroundings = surroundings;
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
  async provide(request: PillarRequest): Promise<PillarAnswer> {
    const { id, saltenv, pillarenv } = request;
    const key = { id, saltenv, pillarenv };
    this.#heedNodegroups();
    const kept = await this.#cache.find(key, request.grains);
    if (kept !== undefined) return kept;
    const reads = new Reads(this.#sources);
    const answer = await this.#make(request, reads);
    reads.seal();
    if (!reads.isVolatile) this.#cache.keep(key, answer, reads);
    return answer;
  }

  /** A pillar as it is made, file by file; nothing of it is kept. */
  compile(request: PillarRequest): Promise<CompiledPillar> {
    return this.#compile(request, new Reads(this.#sources));
  }

  async close(): Promise<void> {
    await this.#sources.close();
  }

  /** Top files go by them, and a running master takes new ones over. */
  #heedNodegroups(): void {
    const { nodegroups } = this.#config;
    if (nodegroups === this.#nodegroups) return;
    this.#nodegroups = nodegroups;
    this.#cache.clear();
  }

  #compile(request: PillarRequest, reads: Reads): Promise<CompiledPillar> {
    return compilePillar(this.#settingOf(request), reads);
  }

  async #make(request: PillarRequest, reads: Reads): Promise<PillarAnswer> {
    this.#made += 1;
    const compiled = await this.#compile(request, reads);
    this.#tell(compiled, request.id);
    const pillar = answerOf(compiled);
    if (reads.grains.isEmpty) return { pillar, proven: pillar };
    const unclaimed = { ...request, grains: { id: request.id } };
    const proven = await this.#compile(unclaimed, reads.beside());
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

  #settingOf({ id, grains, saltenv, pillarenv: asked }: PillarRequest): PillarSetting {
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
      pillar: new Map(),
      yaml: this.#yaml,
      slowPatterns: this.#slowPatterns,
      now: this.#surroundings.now,
      random: this.#surroundings.random ?? Math.random,
    };
  }
}

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
