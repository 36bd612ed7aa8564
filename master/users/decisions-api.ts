/** Implements the operations on recorded decisions: `learn`, `replay` and `forget`. */

import { createPolicy, type PolicyRule, parseRule } from '#acl';
import type { AclApi } from '../api/index.ts';
import type { DecisionRecorder } from './decisions.ts';
import { learnPolicy } from './learn.ts';
import type { LivePolicy } from './policy.ts';
import { replay } from './replay-decisions.ts';

export interface DecisionsDeps {
  readonly decisions: DecisionRecorder;
  readonly policy: Pick<LivePolicy, 'world'>;
}

export function createDecisionsApi({
  decisions,
  policy,
}: DecisionsDeps): Pick<AclApi, 'forget' | 'learn' | 'replay'> {
  return {
    learn: async ({ since = 0, generalise = false } = {}) =>
      learnPolicy(decisions.list(since), { generalise }),
    replay: async ({ rules, since = 0 }) => {
      const candidate = createPolicy(rules.map(readRule), policy.world);
      return replay(decisions.list(since), candidate, decisions.missed);
    },
    forget: () => decisions.clear(),
  };
}

/** Parses a rule again, because it comes from another process and was not checked here. */
function readRule({ name, origin, ...rule }: PolicyRule): PolicyRule {
  return parseRule(name, rule, origin);
}
