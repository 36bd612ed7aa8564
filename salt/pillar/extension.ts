/** Opens the pillar of minions: from files, `ext_pillar`, the embedding program and extensions. */

import { gitPillarRemotesOf } from '#config';
import {
  type ExtensionHost,
  type ExtPillar,
  type Jobs,
  masterServices,
  type OpenExtension,
  type PillarProvider,
  tags,
} from '#master';
import { servedFiles } from '../file-trees/served-files.ts';
import type { MasterCall } from '../render/master-functions.ts';
import { fileServerKey, gitMirrorsOf, pillarSourceKey } from '../services.ts';
import { gitPillarUpdater } from './git-pillar.ts';
import { gitPillarRunner } from './git-pillar-runner.ts';
import { openPillarSource } from './pillar.ts';
import { createPillarApi } from './pillar-api.ts';
import { pillarRequest } from './pillar-request.ts';
import { pillarRunner } from './pillar-runner.ts';

type FactsOfMinion = Parameters<Jobs['facts']['keep']>[0][number];

/** Pillar that the embedding program provides. */
export interface PillarOptions {
  /** Pillar of each minion. Default: the pillar of the files below `pillar_roots`. */
  readonly pillar?: PillarProvider | undefined;
  /** Additional pillar sources, merged over `pillar` in this order. Default: none. */
  readonly extPillar?: readonly ExtPillar[] | undefined;
}

export async function openPillarExtension(
  host: ExtensionHost,
  { pillar, extPillar = [] }: PillarOptions,
): Promise<OpenExtension> {
  const config = host.use(masterServices.config);
  const context = host.use(masterServices.context);
  const auth = host.use(masterServices.auth);
  const { facts } = host.use(masterServices.jobs);
  const { gate } = host.use(masterServices.users);
  const { pillars } = host.use(masterServices.contributions);
  const mirrors = gitMirrorsOf(host);
  const fileServer = host.find(fileServerKey);
  const { runners } = host.use(masterServices.functions);
  const deps = {
    ...{ config, context, auth, mirrors },
    files: fileServer && servedFiles(fileServer),
    // Pillars are compiled often, so these calls are not stored as jobs.
    runRunner: (call: MasterCall) => runners.run(call, { isKept: false }),
  };
  const source = await openPillarSource(deps, { pillar, extPillar, added: pillars });
  await mirrors.start();
  host.provide(pillarSourceKey, source);
  host.provide(masterServices.pillar, createPillarApi({ pillar: source, facts }));
  const { fixed } = config;
  const remotes = fixed.extPillar.flatMap((entry) =>
    entry.module === 'git' ? gitPillarRemotesOf(entry.remotes, fixed) : [],
  );
  return {
    requests: {
      _pillar: pillarRequest(source, {
        maxGrainsBytes: fixed.limits.grainsBytes,
        modules: new Set(fixed.extPillar.map(({ module }) => module)),
        merge: {
          strategy: fixed.pillarSourceMergingStrategy,
          mergeLists: fixed.pillarMergeLists,
        },
        keepFacts: factsKeeper(host),
        gate,
        counters: context.counters,
        log: context.log.child({ component: 'requests' }),
      }),
    },
    runners: {
      ...pillarRunner({
        pillar: source,
        facts,
        firstId: () => auth.keys.acceptedIds()[0] ?? fixed.id,
      }),
      ...gitPillarRunner({ updater: gitPillarUpdater(remotes, mirrors) }),
    },
  };
}

/**
 * Returns a function that stores a minion's grains and pillar if `minion_data_cache` is set. If
 * `minion_data_cache_events` is set too, the function publishes an event that reports the new data
 * [WIRE 9.3].
 */
function factsKeeper(host: ExtensionHost): (minion: FactsOfMinion) => Promise<void> {
  const config = host.use(masterServices.config);
  const { facts } = host.use(masterServices.jobs);
  const { bus } = host.use(masterServices.events);
  return async (minion) => {
    if (!config.fixed.minionDataCache) return;
    await facts.keep([minion]);
    if (!config.current.minionDataCacheEvents) return;
    bus.fire(tags.dataRefreshed(minion.id), { 'Minion data cache refresh': minion.id });
  };
}
