/** The interface to recorded decisions: see ../api.ts for what each call promises. */
import { createPolicy, type PolicyRule, parseRule } from '../../acl/index.ts';
import type { AclApi } from '../api.ts';
import type { LivePolicy } from '../policy/live-policy.ts';
import { learnPolicy } from './learn.ts';
import type { DecisionRecorder } from './recorder.ts';
import { replay } from './replay.ts';

/** What {@link createDecisionsApi} needs. */
export interface DecisionsParts {
  readonly decisions: DecisionRecorder;
  readonly policy: Pick<LivePolicy, 'world'>;
}

export function createDecisionsApi({
  decisions,
  policy,
}: DecisionsParts): Pick<AclApi, 'forget' | 'learn' | 'replay'> {
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

/** From another process: its form is looked at again. */
function readRule({ name, origin, ...rule }: PolicyRule): PolicyRule {
  return parseRule(name, rule, origin);
}
