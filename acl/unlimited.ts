/** Whether a subject may publish everything, everywhere, whatever its arguments. */
import type { Policy } from './policy.ts';
import type { PolicyRule, TextPattern } from './rule.ts';
import type { Subject } from './types.ts';

const everything: ReadonlySet<string> = new Set(['*', '.*', '.+', '^.*$', '.*$', '^.*', '^.+$']);

/**
 * Such a subject's jobs need not be expanded or shortened before they are published. Where a rule
 * denies it anything, it is not such a one.
 */
export function isUnlimited(subject: Subject, policy: Policy): boolean {
  const now = policy.now();
  const own = policy.rules.filter(
    ({ rule, subject: it, expiresAt }) =>
      rule.action === 'publish' && it.covers(subject) && it.holds(subject) && now < expiresAt,
  );
  return own.every(({ rule }) => rule.effect === 'allow') && own.some(({ rule }) => isOpen(rule));
}

function isOpen(rule: PolicyRule): boolean {
  if (rule.action !== 'publish' || rule.rate !== undefined) return false;
  const { fun, arguments: conditions, within, environment } = rule.resource;
  const isBound = [conditions, within, environment].some((it) => it !== undefined);
  return !isBound && [fun].flat().some(meansEverything);
}

function meansEverything(pattern: TextPattern): boolean {
  return typeof pattern === 'string' ? pattern === '*' : everything.has(pattern.regex);
}
