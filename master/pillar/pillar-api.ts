/** The interface to pillar: see ../api.ts for what each call promises. */
import type { FactMap, WireMap } from '../../minion-protocol/index.ts';
import type { PillarApi } from '../api.ts';
import type { PillarRequest } from '../requests/pillar.ts';
import type { KnownFacts } from '../targeting/minion-facts.ts';
import { compiledOf, type PillarSource } from './answer.ts';
import { differences } from './difference.ts';
import { originsOf, valueAt } from './explain.ts';

/** What {@link createPillarApi} needs. */
export interface PillarApiParts {
  readonly pillar: PillarSource;
  readonly facts: KnownFacts;
}

export function createPillarApi({ pillar, facts }: PillarApiParts): PillarApi {
  return {
    show: async (question) => (await pillar.provide(requestOf(facts, question))).pillar,
    explain: async ({ key = '', ...question }) => {
      const request = requestOf(facts, question);
      const { layers } = await compiledOf(pillar, request);
      const { pillar: whole, proven } = await pillar.provide(request);
      const [value = null, provenValue = null] = [valueAt(whole, key), valueAt(proven, key)];
      const followsFromGrains = differences(provenValue, value).length > 0;
      return { value, followsFromGrains, ...originsOf(layers, key) };
    },
    diff: async (question) => {
      const { pillar: now } = await pillar.provide(requestOf(facts, question));
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
export function requestOf(
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
