import { TokenBuckets } from '#runtime';
import {
  type CompiledResource,
  compileResource,
  type GuestRequest,
  textsOf,
} from './compile-resource.ts';
import { type CompiledSubject, compileSubject, describeSubject } from './compile-subject.ts';
import { PolicyError } from './errors.ts';
import { policyLimits } from './limits.ts';
import type { PolicyEnvironment } from './policy-syntax.ts';
import { parseRate } from './rate.ts';
import type { PolicyRule } from './rule.ts';
import { describeTexts } from './rule-patterns.ts';
import type { Subject } from './types.ts';

/**
 * Whether the rule covers only machines that were enrolled for the subject's own project. True if
 * the subject acts for a project, and the rule allows named commands without `within`.
 */
export function isForOwnGuests(
  { resource: { among, isOwnGuest } }: CompiledRule,
  subject: Subject,
): boolean {
  return among === undefined && isOwnGuest !== undefined && subject.kind === 'project';
}

/**
 * Whether an `allow` rule covers a minion. If the rule has `within` or `owner`, the minion must
 * match it. If {@link isForOwnGuests} is true for the rule, the minion must be enrolled for the
 * subject's project. Any other rule covers all minions.
 */
export function mayReferTo(rule: CompiledRule, request: GuestRequest, id: string): boolean {
  const { among, isOwnGuest } = rule.resource;
  if (among !== undefined) return among.isEntitled(id);
  return !isForOwnGuests(rule, request.subject) || isOwnGuest?.(request, id) === true;
}

/** A rule with everything that a decision needs: its tests, its expiry and its rate limit. */
export interface CompiledRule {
  readonly rule: PolicyRule;
  /**
   * Position in the policy. If several rules decide a question, the one with the lowest position is
   * reported.
   */
  readonly order: number;
  readonly subject: CompiledSubject;
  readonly resource: CompiledResource;
  /** Time at which the rule expires, in milliseconds since 1970. `Infinity` if it never expires. */
  readonly expiresAt: number;
  readonly meter: TokenBuckets | undefined;
  /**
   * Whether targets may query the pillar of the minions that this rule covers (`facts: pillar`).
   */
  readonly showsPillar: boolean;
  /** Explanation of a decision by this rule, in one sentence. */
  readonly reason: string;
}

const reservedRuleNames: ReadonlySet<string> = new Set(['default-deny', 'learning']);

/**
 * Compiles a rule.
 * @throws PolicyError
 */
export function compileRule(
  rule: PolicyRule,
  order: number,
  world: PolicyEnvironment,
): CompiledRule {
  refuseContradictions(rule);
  return {
    rule,
    order,
    subject: compileSubject(rule, world),
    resource: compileResource(rule, world),
    expiresAt: expiryOf(rule),
    meter: meterOf(rule),
    showsPillar: showsPillar(rule),
    reason: reasonOf(rule),
  };
}

/** Returns the expiry of a rule in milliseconds since 1970, or `Infinity`. */
export function expiryOf({ expires, name }: PolicyRule): number {
  return expires === undefined ? Infinity : parseTime(expires, name);
}

/** Returns counters for the rate limit of a rule, or `undefined` if the rule has no rate limit. */
export function meterOf({ rate, name }: PolicyRule): TokenBuckets | undefined {
  if (rate === undefined) return undefined;
  return new TokenBuckets(policyLimits.ruleRate, undefined, parseRate(rate, name));
}

/** Returns the explanation of a decision by a rule, in one sentence. */
export function reasonOf(rule: PolicyRule): string {
  return `${describeSubject(rule.subject)} ${verbs[rule.effect]} ${describeResource(rule)}`;
}

/**
 * Rejects fields that contradict each other.
 * @throws PolicyError
 */
export function refuseContradictions(rule: PolicyRule): void {
  if (reservedRuleNames.has(rule.name)) {
    const problem = 'this name is reserved for decisions without a rule; choose a different one';
    throw new PolicyError('ERR_POLICY_FORM', { rule: rule.name, field: '' }, problem);
  }
  if (rule.effect === 'deny' && rule.rate !== undefined) {
    const place = { rule: rule.name, field: 'rate' };
    throw new PolicyError(
      'ERR_POLICY_FORM',
      place,
      'a rule that denies cannot have a rate; remove the rate',
    );
  }
  if (rule.effect === 'deny' && showsPillar(rule)) {
    const place = { rule: rule.name, field: 'resource.facts' };
    throw new PolicyError(
      'ERR_POLICY_FORM',
      place,
      'a rule that denies cannot have the field `facts`; remove the field',
    );
  }
}

/** Whether targets may query the pillar of the minions that the rule covers (`facts: pillar`). */
export function showsPillar({ resource }: PolicyRule): boolean {
  return 'facts' in resource && resource.facts === 'pillar';
}

const verbs: Readonly<Record<PolicyRule['effect'], string>> = {
  allow: 'is allowed',
  deny: 'is denied',
};

function describeResource(rule: PolicyRule): string {
  return `${rule.action} ${describeTexts(textsOf(rule))}`;
}

export function parseTime(text: string, rule: string): number {
  const isIso = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(text);
  const time = isIso ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  const problem = 'must be a date or a time with a zone: 2027-01-31, 2027-01-31T12:00:00Z';
  throw new PolicyError('ERR_POLICY_PATTERN', { rule, field: 'expires' }, problem);
}
