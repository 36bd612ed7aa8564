/** Reactions made ready for being asked about events. */
import { parseRate, RateLimiter } from '../../acl/index.ts';
import { compileGlob } from '../../minion-protocol/index.ts';
import type { MasterConfig } from '../config/options.ts';
import { rulesOf } from '../config/policy-rules.ts';
import type { TargetResolver } from '../targeting/resolve.ts';
import { createPlanner, type Planner } from './planner.ts';
import { globsOf, type Reaction } from './reaction.ts';
import { reactorReactions } from './reactor-option.ts';
import { neededValues, vouchingRules } from './vouching.ts';

/** A reaction that can be asked. */
export interface CompiledReaction {
  readonly reaction: Reaction;
  readonly matches: (tag: string) => boolean;
  /** @param sender `undefined`: the master itself */
  readonly isFrom: (sender: string | undefined) => boolean;
  /** Whether the rule that let an event in vouches for all that is taken from its data. */
  readonly isVouchedFor: (rule: string | undefined) => boolean;
  readonly plan: Planner;
  readonly meter: RateLimiter;
}

/** @throws SyntaxError for a target that cannot be read, which the configuration would not have */
export function compileReactions(
  config: MasterConfig,
  targets: Pick<TargetResolver, 'compileRight'>,
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
    const vouching = needed.length > 0 ? vouchingRules(reaction, needed, rules) : undefined;
    return {
      reaction,
      matches: (tag) => globs.some((matches) => matches(tag)),
      isFrom: (sender) =>
        selector === undefined || (sender !== undefined && selector.isEntitled(sender)),
      isVouchedFor: (rule) => vouching === undefined || (rule !== undefined && vouching.has(rule)),
      plan: 'sls' in action ? planSls(action.sls) : createPlanner(action),
      meter: new RateLimiter(parseRate(reaction.rate, reaction.name)),
    };
  });
}
