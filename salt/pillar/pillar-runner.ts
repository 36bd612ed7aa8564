/** The `pillar` runner [salt/runners/pillar.py]. */

import { type CallContext, type Jobs, limitOwnerOf } from '#master';
import { FairSlots } from '#runtime';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { optional, text } from '../functions/parameters.ts';
import { saltLimits } from '../limits.ts';
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
  readonly facts: Pick<Jobs['facts'], 'of'>;
}

export function pillarRunner({ pillar, facts, firstId }: PillarRunnerDeps): FunctionTable {
  const slots = new FairSlots(saltLimits.shownPillars);
  // Compiling a pillar counts for the minion, and a user may invent any number of minion ids.
  const within = <T>({ by }: Pick<CallContext, 'by'>, work: () => Promise<T>): Promise<T> => {
    const owner = limitOwnerOf(by);
    return owner === undefined ? work() : slots.run(owner, work);
  };
  return {
    'pillar.show_pillar': masterFunction({
      summary: "Compiles a minion's pillar; additional keywords override its grains.",
      parameters: {
        minion: optional(text, '*'),
        saltenv: optional(text, 'base'),
        pillarenv: optional(text),
      },
      takesMore: true,
      call: (question, context, more) =>
        within(context, async () => {
          return (await pillar.provide(pillarRequestOf(facts, question, more))).pillar;
        }),
    }),
    'pillar.show_top': masterFunction({
      summary:
        'Returns the pillar SLS that the top files assign to a minion, by environment; without minion, to the first one.',
      parameters: {
        minion: optional(text),
        saltenv: optional(text),
        pillarenv: optional(text),
      },
      call: async ({ minion = firstId(), ...question }, context) => {
        const request = pillarRequestOf(facts, { minion, ...question });
        const { matches } = await within(context, () => compiledOf(pillar, request));
        return new Map(Array.from(matches, ([saltenv, names]) => [saltenv, [...names]]));
      },
    }),
  };
}
