/**
 * Rules whose patterns and targets were examined without a mistake. A master examines its rules
 * when it reads its configuration, and again when it compiles them, and masters of one process may
 * share rules.
 */

import type { PolicySyntax } from './policy-syntax.ts';
import type { PolicyRule } from './rule.ts';

/** Dialect in which a rule was accepted last. */
const acceptedIn = new WeakMap<PolicyRule, string>();

/** Whether a rule was accepted in the dialect of this syntax. Rules never change. */
export function isAccepted(rule: PolicyRule, { dialect }: PolicySyntax): boolean {
  return dialect !== undefined && acceptedIn.get(rule) === dialect;
}

/** Records that a rule was accepted. A rule that can still change is not recorded. */
export function markAccepted(rule: PolicyRule, { dialect }: PolicySyntax): void {
  if (dialect !== undefined && Object.isFrozen(rule)) acceptedIn.set(rule, dialect);
}
