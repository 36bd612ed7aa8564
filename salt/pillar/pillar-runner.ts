/** The `pillar` runner [salt/runners/pillar.py]. */

import type { Jobs } from '#master';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { optional, text } from '../functions/parameters.ts';
import type { PillarSource } from '../render/pillar-source.ts';
import { compiledOf } from './pillar.ts';
import { pillarRequestOf } from './pillar-api.ts';

interface PillarRunnerDeps {
  /**
   * Returns the first of the sorted minion ids with an accepted key, or the master's id if there is
   * none.
   */
  readonly firstId: () => string;
  readonly pillar: PillarSource;
  readonly facts: Jobs['facts'];
}

export function pillarRunner({ pillar, facts, firstId }: PillarRunnerDeps): FunctionTable {
  return {
    'pillar.show_pillar': masterFunction({
      summary: "Compiles a minion's pillar; additional keywords override its grains.",
      parameters: {
        minion: optional(text, '*'),
        saltenv: optional(text, 'base'),
        pillarenv: optional(text),
      },
      takesMore: true,
      call: async (question, _context, more) => {
        return (await pillar.provide(pillarRequestOf(facts, question, more))).pillar;
      },
    }),
    'pillar.show_top': masterFunction({
      summary:
        'Returns the pillar SLS that the top files assign to a minion, by environment; without minion, to the first one.',
      parameters: {
        minion: optional(text),
        saltenv: optional(text),
        pillarenv: optional(text),
      },
      call: async ({ minion = firstId(), ...question }) => {
        const request = pillarRequestOf(facts, { minion, ...question });
        const { matches } = await compiledOf(pillar, request);
        return new Map(Array.from(matches, ([saltenv, names]) => [saltenv, [...names]]));
      },
    }),
  };
}
