/** The `pillar` runner [salt/runners/pillar.py]. */
import type { FactMap, WireMap } from '../../minion-protocol/index.ts';
import type { PillarSource } from '../pillar/answer.ts';
import type { KnownFacts } from '../targeting/minion-facts.ts';
import { type FunctionTable, masterFunction } from './function.ts';
import { optional, text } from './parameters.ts';

/** What these runners need. */
export interface PillarRunnerParts {
  readonly pillar: PillarSource;
  readonly facts: KnownFacts;
}

export function pillarRunner({ pillar, facts }: PillarRunnerParts): FunctionTable {
  return {
    'pillar.show_pillar': masterFunction({
      summary: "A minion's pillar, made anew; more keywords are put over its grains.",
      parameters: {
        minion: optional(text, '*'),
        saltenv: optional(text, 'base'),
        pillarenv: optional(text),
      },
      takesMore: true,
      call: async ({ minion: id, saltenv, pillarenv }, _context, more) => {
        const known = textKeys(facts.of(id).grains?.whole() ?? { fqdn: id });
        const grains = { ...known, ...more, id };
        const { pillar: shown } = await pillar({ id, grains, saltenv, pillarenv });
        return shown;
      },
    }),
  };
}

/** The grains that can be asked for by name. */
function textKeys(map: FactMap): WireMap {
  if (!(map instanceof Map)) return map;
  return Object.fromEntries([...map].filter(([key]) => typeof key === 'string'));
}
