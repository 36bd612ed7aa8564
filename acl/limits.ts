import { defineLimits } from '#runtime';

/** Limits of the policy. */
export const policyLimits = defineLimits('acl', {
  ruleRate: {
    unit: 'uses of a rule with `rate`',
    owner: 'user',
    amounts: '`rate` of the rule',
    option: 'saltbridge:acl',
    effect: 'The rule does not permit the action.',
  },
  argumentNames: {
    unit: 'names in an argument with a comma-separated list, or combinations of names in two such arguments, if a rule has conditions on arguments',
    owner: 'caller',
    perOwner: 1_000,
    effect: 'Rules with conditions on arguments do not permit the call, and deny it.',
  },
});
