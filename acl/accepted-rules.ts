/**
 * Remembers which rules have valid patterns and targets, so that a rule is validated only once.
 * Otherwise, a master would validate its rules when it reads its configuration and again when it
 * compiles them. Masters in one process that share rules also share the results.
 */

import type { PolicySyntax } from './policy-syntax.ts';
import type { PolicyRule } from './rule.ts';

/**
 * Rules that were found valid. The value is the `dialect` of the {@link PolicySyntax} with which
 * the rule was last validated.
 */
const acceptedIn = new WeakMap<PolicyRule, string>();

/**
 * Whether the rule was already found valid with this policy syntax, or with another one of the same
 * `dialect`. It then need not be validated again, because recorded rules cannot change.
 */
export function isAccepted(rule: PolicyRule, { dialect }: PolicySyntax): boolean {
  return dialect !== undefined && acceptedIn.get(rule) === dialect;
}

/**
 * Records that the rule is valid for this policy syntax, and for all others with the same
 * `dialect`. Does nothing for a rule that is not frozen, because such a rule could still change.
 */
export function markAccepted(rule: PolicyRule, { dialect }: PolicySyntax): void {
  if (dialect !== undefined && Object.isFrozen(rule)) acceptedIn.set(rule, dialect);
}
