/** The `pillar` runner [salt/runners/pillar.py]. */
import { compiledOf, type PillarSource } from '../pillar/answer.ts';
import { requestOf } from '../pillar/pillar-api.ts';
import type { KnownFacts } from '../targeting/minion-facts.ts';
import { type FunctionTable, masterFunction } from './function.ts';
import { optional, required, text } from './parameters.ts';

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
      call: async (question, _context, more) => {
        return (await pillar.provide(requestOf(facts, question, more))).pillar;
      },
    }),
    'pillar.show_top': masterFunction({
      summary: 'The SLS of pillar that the top files give a minion, by environment.',
      parameters: {
        minion: required(text),
        saltenv: optional(text),
        pillarenv: optional(text),
      },
      call: async (question) => {
        const { matches } = await compiledOf(pillar, requestOf(facts, question));
        return new Map(Array.from(matches, ([saltenv, names]) => [saltenv, [...names]]));
      },
    }),
  };
}
