/** The `pillar` interface of the master. */

import type { Jobs, MasterApi, PillarRequest } from '#master';
import type { FactMap, WireMap } from '#minion-protocol';
import type { PillarSource } from '../render/pillar-source.ts';
import { compiledOf, inputsOfFiles, valueAt } from './pillar.ts';
import { differences, originsOf } from './pillar-origins.ts';

export interface PillarApiDeps {
  readonly pillar: PillarSource;
  readonly facts: Jobs['facts'];
}

export function createPillarApi({ pillar, facts }: PillarApiDeps): MasterApi['pillar'] {
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
    inputs: () => inputsOfFiles(pillar),
  };
}

/** Query for the pillar that a minion would get: the id of the minion, and its environment. */
interface Asked {
  readonly minion: string;
  readonly saltenv?: string | undefined;
  readonly pillarenv?: string | undefined;
}

/**
 * Returns the request that a minion would send, with its latest known grains.
 * @param more - grains merged over the known ones
 */
export function pillarRequestOf(
  facts: Pick<Jobs['facts'], 'of'>,
  { minion: id, saltenv, pillarenv }: Asked,
  more: WireMap = {},
): PillarRequest {
  const known = textKeys(facts.of(id).grains?.whole() ?? { fqdn: id });
  return { id, grains: { ...known, ...more, id }, saltenv, pillarenv };
}

/** Returns the entries whose keys are texts. Only these can be looked up by name. */
function textKeys(map: FactMap): WireMap {
  if (!(map instanceof Map)) return map;
  return Object.fromEntries([...map].filter(([key]) => typeof key === 'string'));
}
