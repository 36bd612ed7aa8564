import { defineLimits } from '#runtime';

/** Limits of the policy: how many times a user may use a rule that has a `rate`. */
export const policyLimits = defineLimits('acl', {
  ruleRate: {
    unit: 'uses of a rule with `rate`',
    owner: 'user',
    amounts: '`rate` of the rule',
    option: 'saltbridge:acl',
    effect: 'The rule does not permit the action.',
  },
});
