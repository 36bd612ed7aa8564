/** Opens the pillar of a master: from files or the embedding program, merged with `ext_pillar`. */

import { type GitPillarEntry, gitPillarRemotesOf, type LiveConfig } from '#config';
import {
  type Auth,
  type ExtPillar,
  type FileServerBackend,
  type MasterContext,
  MasterError,
  type PillarInputs,
  type PillarProvider,
  type PillarRequest,
} from '#master';
import { traverseFacts, type WireValue } from '#minion-protocol';
import type { GitMirrors } from '../file-trees/git-mirrors.ts';
import { hiddenDirectories } from '../file-trees/open-file-roots.ts';
import { openRoots } from '../file-trees/roots.ts';
import type { TemplateMaster } from '../render/master-functions.ts';
import { masterOptionsOf } from '../render/master-options.ts';
import type { CompiledPillar, PillarSource } from '../render/pillar-source.ts';
import { PillarSources } from '../render/pillar-sources.ts';
import { ParsedFileCache, Renderer } from '../render/renderer.ts';
import { withMasterOptions } from './compile-pillar.ts';
import { type ExtPillarLayer, withAddedPillar, withExtPillar } from './ext-pillar.ts';
import { openGitPillar } from './git-pillar.ts';
import { onDemandPillar } from './on-demand-pillar.ts';
import { openExtPillars } from './open-ext-pillars.ts';
import { OwnPillar, type PillarConfig, type PillarDeps } from './own-pillar.ts';
import { PersistentPillarCache } from './persistent-pillars.ts';
import { pillarCalls } from './pillar-calls.ts';
import { sharedTables } from './pillar-sharing.ts';
import { SharedResults } from './shared-results.ts';

/** Pillar that the embedding program and extensions provide in addition to the configured files. */
export interface PillarOfProgram {
  /** Pillar of each minion. Default: the pillar of the files below `pillar_roots`. */
  readonly pillar?: PillarProvider | undefined;
  /** Pillar sources of the embedding program, merged over `pillar` in this order. */
  readonly extPillar: readonly ExtPillar[];
  /**
   * Pillar sources of extensions, merged over all others. Extensions append to this array when they
   * are opened.
   */
  readonly added: readonly ExtPillar[];
}

export interface PillarSourceDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly auth: Auth;
  readonly mirrors: GitMirrors;
  /** Files that the master serves to minions. `undefined` if it serves none. */
  readonly files: FileServerBackend | undefined;
  readonly runRunner: TemplateMaster['runRunner'];
}

/** Opens the pillar files of a configuration. The caller closes them. */
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
 * Opens the source of pillar data. The base is the pillar that the embedding program provides, or
 * otherwise the configured pillar files. The option `ext_pillar` is merged over or under the base,
 * depending on `ext_pillar_first`. The program's `extPillar` sources are then merged over the
 * result.
 */
export async function openPillarSource(
  deps: PillarSourceDeps,
  { pillar, extPillar, added }: PillarOfProgram,
): Promise<PillarSource> {
  const { config, context } = deps;
  const log = context.log.child({ component: 'pillar' });
  const rendering = context.closers.add(new Renderer(), (it) => it.close());
  const reader = new ParsedFileCache(rendering);
  const { fixed } = config;
  const { pillarSourceMergingStrategy: strategy, pillarMergeLists: mergeLists } = fixed;
  const merge = { strategy, mergeLists, log };
  const onDemand = onDemandPillar({
    ...{ masterId: fixed.id, allowed: fixed.onDemandExtPillar, reader, merge },
    source: () => source,
  });
  const { jinjaTrimBlocks: trimBlocks, jinjaLstripBlocks: lstripBlocks } = config.fixed;
  const surroundings: PillarDeps = {
    ...{ log, now: context.now, rendering },
    onRendered: () => {
      context.meter.pillarRenderings += 1;
    },
    onProvided: (kind) => context.meter.pillars.add(kind),
    onDemand,
    files: deps.files && new PillarSources({ backend: deps.files, trimBlocks, lstripBlocks }),
    asked: pillarCalls({
      runRunner: deps.runRunner,
      log: (level, message) => log[level]({}, message),
    }),
  };
  const base =
    pillar === undefined ? await openLastingPillar(deps, surroundings) : fromProvider(pillar);
  const configured = withExtPillar(base, {
    ...merge,
    sources: await openExtPillars(fixed.extPillar, {
      reader,
      openGit: (entry) => openGitEntry(entry, deps, surroundings),
      leftOut: fixed.leftOutExtPillar,
    }),
    areFirst: fixed.extPillarFirst,
  });
  const whole = withAddedPillar(configured, { ...merge, sources: extPillar, added });
  const source = fixed.pillarOpts ? withMasterOptions(whole, config) : whole;
  return { ...source, onDemand };
}

/** Opens the pillar of a `git` entry of `ext_pillar`. It is cached only in memory. */
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
      const options = { ...fixed, ...reloadedOptions(config), limits: fixed.limits };
      const pillar = new OwnPillar(
        { ...options, pillarRoots: { [env]: ['git'] } },
        new PillarSources({
          backend,
          trimBlocks: fixed.jinjaTrimBlocks,
          lstripBlocks: fixed.jinjaLstripBlocks,
        }),
        { ...surroundings, isKept },
      );
      config.onChange(() => pillar.configure(reloadedOptions(config)));
      return pillar;
    },
  });
  const unsubscribe = keys.onChange(({ id }) => {
    if (!isKept(id)) for (const layer of layers) layer.forget?.(id);
  });
  context.closers.add(unsubscribe, (it) => it());
  return layers;
}

/** Returns the options of pillar that a reload can change. */
function reloadedOptions(config: LiveConfig): Pick<PillarConfig, 'nodegroups' | 'masterOptions'> {
  const masterOptions = masterOptionsOf(config);
  return { nodegroups: config.current.nodegroups, masterOptions };
}

/** Opens the pillar files of a master with a cache that persists across restarts. */
async function openLastingPillar(
  { config, context, auth }: PillarSourceDeps,
  surroundings: PillarDeps,
): Promise<OwnPillar> {
  const { ownStore: store, closers } = context;
  const { keys, seal } = auth;
  const hasKey = (id: string): boolean => keys.get(id) !== undefined;
  const { minionDataCache } = config.fixed;
  if (!minionDataCache) {
    await PersistentPillarCache.clear(store);
    await SharedResults.clear(store, sharedTables.tops);
  }
  const kept = { store, seal, hasKey };
  const persistent = minionDataCache ? await PersistentPillarCache.open(kept) : undefined;
  const pillar = await openPillar(
    { ...config.fixed, ...reloadedOptions(config) },
    { ...surroundings, persistent, shared: minionDataCache ? kept : undefined, isKept: hasKey },
  );
  config.onChange(async () => {
    pillar.configure(reloadedOptions(config));
    if (config.fixed.site !== null) await pillar.refresh();
  });
  const unsubscribe = keys.onChange(({ id }) => {
    if (!hasKey(id)) pillar.forget(id);
  });
  closers.add(pillar, (it) => {
    unsubscribe();
    return it.close();
  });
  return pillar;
}

/** Returns the value at a path of keys such as `a:b`, or all data for the empty path. */
export function valueAt(data: WireValue, path: string): WireValue | undefined {
  return path === '' ? data : traverseFacts(data, path.split(':'));
}

/**
 * Converts the pillar provider of the embedding program to a source. Access decisions use the whole
 * pillar of the provider, even if it depends on grains.
 */
export function fromProvider(provider: PillarProvider): PillarSource {
  return {
    provide: async (request) => {
      const pillar = await provider(request);
      return { pillar, proven: pillar };
    },
  };
}

/**
 * Compiles a pillar without the cache. The result also contains the data of each file.
 * @throws MasterError ERR_NOT_SERVED if the embedding program provides the pillar
 */
export async function compiledOf(
  pillar: PillarSource,
  request: PillarRequest,
): Promise<CompiledPillar> {
  if (pillar.compile !== undefined) return pillar.compile(request);
  throw noFilesError();
}

/**
 * Returns the grains on which the pillars from files depend, and how many of these pillars minions
 * can share.
 * @throws MasterError ERR_NOT_SERVED if the embedding program provides the pillar
 */
export async function inputsOfFiles(pillar: PillarSource): Promise<PillarInputs> {
  if (pillar.inputs !== undefined) return pillar.inputs();
  throw noFilesError();
}

function noFilesError(): MasterError {
  return new MasterError(
    'ERR_NOT_SERVED',
    'the pillar has no files: the program that created the master provides it by a function',
  );
}
