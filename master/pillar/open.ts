/** The pillar of a master: that of its files, or of a program, with that from elsewhere. */
import type { Closers } from '../closers.ts';
import type { MasterConfig } from '../config/options.ts';
import { hiddenDirectories } from '../fileserver/open.ts';
import { openRoots } from '../fileserver/roots.ts';
import type { Foundations } from '../foundations.ts';
import type { MasterParts } from '../master.ts';
import { KeptData } from '../rendering/kept-data.ts';
import { Renderer } from '../rendering/renderer.ts';
import { fromProvider, type PillarSource } from './answer.ts';
import { openExtPillars } from './ext-configured.ts';
import { withExtPillar } from './ext-pillar.ts';
import { withMasterOptions } from './master-options.ts';
import { OwnPillar, type PillarConfig, type PillarSurroundings, rulesOf } from './own-pillar.ts';
import { PillarShelf } from './shelf.ts';
import { PillarSources } from './sources.ts';

/** What a master's pillar is opened with. */
export interface PillarSourceSurroundings extends PillarSurroundings {
  readonly closers: Closers;
  readonly foundations: Pick<Foundations, 'store' | 'seal' | 'keys'>;
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

/**
 * A program's pillar where there is one, else that of the configuration's files; those of
 * `ext_pillar` over or under it, and a program's own sources over all.
 */
export async function openPillarSource(
  config: MasterConfig,
  { pillar, extPillar = [] }: Pick<MasterParts, 'pillar' | 'extPillar'>,
  surroundings: PillarSourceSurroundings,
): Promise<PillarSource> {
  const { closers, log } = surroundings;
  const rendering = closers.add(new Renderer(), (it) => it.close());
  const base =
    pillar === undefined
      ? await openLastingPillar(config, { ...surroundings, rendering })
      : fromProvider(pillar);
  const { strategy, mergeLists } = rulesOf(config);
  const merge = { strategy, mergeLists, log };
  const configured = withExtPillar(base, {
    ...merge,
    sources: await openExtPillars(config.extPillar, new KeptData(rendering)),
    areFirst: config.extPillarFirst,
  });
  const whole = withExtPillar(configured, { ...merge, sources: extPillar });
  return config.pillarOpts ? withMasterOptions(whole, config) : whole;
}

/** The pillar files of a master: what was made before a restart is good after it. */
async function openLastingPillar(
  config: MasterConfig,
  { closers, foundations, ...surroundings }: PillarSourceSurroundings,
): Promise<OwnPillar> {
  const { store, keys } = foundations;
  const hasKey = (id: string): boolean => keys.get(id) !== undefined;
  if (!config.minionDataCache) await PillarShelf.clear(store);
  const shelf = config.minionDataCache
    ? await PillarShelf.open({ ...foundations, hasKey })
    : undefined;
  const pillar = await openPillar(config, { ...surroundings, shelf, isKept: hasKey });
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
