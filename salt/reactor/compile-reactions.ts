/**
 * Compiles configured reactions. The result contains predicates, which match events, and planners,
 * which determine the calls.
 */

import { parseRate } from '#acl';
import {
  globsOf,
  type MasterConfig,
  neededValues,
  type Reaction,
  type ReactorEntry,
  reaction,
  rulesOf,
  schemaGuarantees,
} from '#config';
import type { Jobs } from '#master';
import { compileGlob } from '#template/python/fnmatch.ts';
import { saltLimits } from '../limits.ts';
import { createPlanner, type Planner } from './reaction-planner.ts';
import { SharedPlaces, SharedRate } from './shared-rate.ts';

/** A compiled reaction with its predicates and planner. */
export interface CompiledReaction {
  readonly reaction: Reaction;
  readonly matches: (tag: string) => boolean;
  /**
   * Whether the reaction applies to events of this sender.
   * @param sender - `undefined`: the master itself
   */
  readonly isFrom: (sender: string | undefined) => boolean;
  /**
   * Returns whether every event that an access rule permits contains all values that the reaction
   * uses. This is so if the schema of the rule requires these values, or if the reaction uses none.
   * @param rule - name of the access rule that permitted the event; `undefined`: no rule
   */
  readonly isGuaranteedBy: (rule: string | undefined) => boolean;
  readonly plan: Planner;
  readonly meter: SharedRate;
  /**
   * Limits how many runs of the reaction may be unfinished, in total and for each sender of events.
   */
  readonly places: SharedPlaces;
}

/**
 * Compiles the configured reactions.
 * @throws SyntaxError for an invalid target, which the configuration check rejects earlier
 */
export function compileReactions(
  config: MasterConfig,
  targets: Pick<Jobs['targets'], 'compileRight'>,
  planSls: (reference: string) => Planner,
): CompiledReaction[] {
  const rules = rulesOf(config);
  return [...config.reactions, ...reactorReactions(config.reactor)].map((reaction) => {
    const { from, do: action } = reaction;
    const globs = globsOf(reaction).map((glob) => compileGlob(glob));
    const selector =
      from === undefined
        ? undefined
        : targets.compileRight({ tgt: from, tgtType: 'compound' }, config.nodegroups);
    const needed = neededValues(reaction);
    const guarantees = needed.length > 0 ? schemaGuarantees(reaction, needed, rules) : undefined;
    return {
      reaction,
      matches: (tag) => globs.some((matches) => matches(tag)),
      isFrom: (sender) =>
        selector === undefined || (sender !== undefined && selector.isEntitled(sender)),
      isGuaranteedBy: (rule) =>
        guarantees === undefined || (rule !== undefined && guarantees.has(rule)),
      plan: 'sls' in action ? planSls(action.sls) : createPlanner(action),
      meter: new SharedRate(saltLimits.reactionRate, parseRate(reaction.rate, reaction.name)),
      places: new SharedPlaces(saltLimits.reactionQueue, reaction.queue + reaction.maxConcurrent),
    };
  });
}

/**
 * Limits of each reaction that the option `reactor` defines. Salt has no limits per reaction, so
 * these are high. `queue` equals Salt's default of `reactor_worker_hwm`.
 */
const wide = { maxConcurrent: 1000, queue: 10_000, rate: '1000/second' } as const;

/** Converts the option `reactor` to reactions: one for each file, named after the file. */
function reactorReactions(entries: readonly ReactorEntry[]): Reaction[] {
  const tags = new Map<string, string[]>();
  for (const { tag, sls } of entries) {
    for (const file of sls) tags.set(file, [...(tags.get(file) ?? []), tag]);
  }
  return Array.from(tags, ([sls, globs]) => {
    return reaction(sls, { on: [...new Set(globs)], do: { sls }, ...wide });
  });
}
