/** Detects unrestricted rights: all functions, on all minions, with any arguments. */

import type { CompiledRule } from './compile-rule.ts';
import type { Policy } from './policy.ts';
import type { PolicyRule } from './rule.ts';
import { matchesAll } from './rule-patterns.ts';
import type { Subject } from './types.ts';

/** Actions that can be permitted without restrictions. */
type UnlimitedAction = 'publish' | 'runner' | 'wheel' | 'command';

/**
 * Whether a rule allows the subject all functions of an action on all minions, without conditions
 * and without a rate limit. If so, the master publishes a job with its original target. Otherwise,
 * it replaces the target with the ids of the permitted minions. Returns `false` if a `deny` rule
 * for the action applies to the subject. Also returns `false` for the action `command` if the
 * subject acts for a project, because projects are limited to their own machines.
 * @param action - default: `publish`
 */
export function isUnlimited(
  subject: Subject,
  policy: Policy,
  action: UnlimitedAction = 'publish',
): boolean {
  // Projects are limited to their own guests.
  if (subject.kind === 'project' && action === 'command') return false;
  const own = rulesInForce(subject, policy, action);
  return own.every(({ rule }) => rule.effect === 'allow') && own.some(({ rule }) => isOpen(rule));
}

/** Returns the rules about an action of a subject that have not expired. */
export function rulesInForce(
  subject: Subject,
  policy: Policy,
  action: UnlimitedAction,
): readonly CompiledRule[] {
  const now = policy.now();
  return policy.rules.filter(
    ({ rule, subject: it, expiresAt }) =>
      rule.action === action && it.covers(subject) && it.holds(subject) && now < expiresAt,
  );
}

function isOpen(rule: PolicyRule): boolean {
  if (rule.rate !== undefined) return false;
  if (!('fun' in rule.resource) || rule.action === 'mine') return false;
  const { fun, ...conditions } = rule.resource;
  const isBound = Object.entries(conditions).some(
    ([key, it]) => key !== 'facts' && it !== undefined,
  );
  return !isBound && [fun].flat().some(matchesAll);
}
