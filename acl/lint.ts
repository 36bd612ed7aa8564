/** Finds rules without effect, and rules with an unexpected effect, in a policy. */

import { textsOf } from './compile-resource.ts';
import { type CompiledRule, showsPillar } from './compile-rule.ts';
import type { Policy } from './policy.ts';
import { isReservedTag } from './reserved-tags.ts';
import type { PolicyRule } from './rule.ts';
import { mayOverlap } from './rule-overlap.ts';
import type { RuleOrigin } from './types.ts';

/** A finding about one rule of a policy. */
export interface LintFinding {
  readonly kind:
    | 'expired'
    /** No accepted minion matches the rule. */
    | 'matches-no-minion'
    /** A rule with the effect `deny` may override a part of this rule. */
    | 'overlapping'
    /** Another rule already allows or denies the same requests, or more requests. */
    | 'redundant'
    /** The rule can never allow anything. */
    | 'unreachable';
  readonly rule: string;
  readonly origin?: RuleOrigin;
  /** Explanation of the finding, in one sentence. */
  readonly reason: string;
}

/**
 * Compares every rule with all others, and reports findings that are certain. Does not report a
 * rule that is redundant only because of several others together.
 * @param minionIds - ids of the accepted minions, or `undefined` if they are not known
 */
export function lintPolicy(
  { rules, now }: Policy,
  minionIds: readonly string[] | undefined,
): LintFinding[] {
  const time = now();
  return rules.flatMap((compiled) => {
    const reason = (kind: LintFinding['kind'], text: string | undefined): LintFinding[] =>
      text === undefined ? [] : [toFinding(compiled.rule, kind, text)];
    return [
      ...reason('expired', time >= compiled.expiresAt ? 'the rule has expired' : undefined),
      ...reason('matches-no-minion', unmatchedMinions(compiled, minionIds)),
      ...reason('unreachable', unreachableTag(compiled.rule)),
      ...rules.flatMap((other) => lintPair(compiled, other)),
    ];
  });
}

function toFinding(
  { name, origin }: PolicyRule,
  kind: LintFinding['kind'],
  reason: string,
): LintFinding {
  return { kind, rule: name, ...(origin === undefined ? {} : { origin }), reason };
}

function unmatchedMinions(
  { subject }: CompiledRule,
  minionIds: readonly string[] | undefined,
): string | undefined {
  if (subject.kind !== 'minion' || subject.isEveryone || minionIds === undefined) return undefined;
  const isMet = minionIds.some((id) => subject.covers({ kind: 'minion', id }));
  return isMet ? undefined : 'no accepted minion has a matching id';
}

function unreachableTag(rule: PolicyRule): string | undefined {
  if (rule.action !== 'signal' || rule.effect === 'deny') return undefined;
  const begin = rule.resource.tag.replace(/(?:[*?[]|\$\{).*/s, '');
  const isWhole = begin === rule.resource.tag;
  const isMasters = (isWhole || begin.endsWith('/')) && isReservedTag(begin.replace(/\/$/, ''));
  return isMasters ? 'rules cannot allow tags that are reserved for the master' : undefined;
}

function lintPair(compiled: CompiledRule, other: CompiledRule): LintFinding[] {
  const { rule } = compiled;
  const name = other.rule.name;
  if (compiled === other) return [];
  if (!covers(other, compiled)) {
    const isCut = rule.effect === 'allow' && other.rule.effect === 'deny';
    const reason = `the rule ${name} denies, or may deny, a part of what this rule allows`;
    return isCut && mayOverlap(rule, other.rule) ? [toFinding(rule, 'overlapping', reason)] : [];
  }
  if (rule.effect !== other.rule.effect) {
    return rule.effect === 'allow'
      ? [toFinding(rule, 'unreachable', `the rule ${name} denies everything that this rule allows`)]
      : [];
  }
  // Of two equivalent rules, the later one is reported.
  const isSame = covers(compiled, other);
  if (isSame && compiled.order < other.order) return [];
  return [
    toFinding(
      rule,
      'redundant',
      `the rule ${name} ${isSame ? 'is equivalent' : 'covers this rule'}`,
    ),
  ];
}

/** Whether the rule `wide` applies to every question that the rule `narrow` applies to. */
function covers(wide: CompiledRule, narrow: CompiledRule): boolean {
  const [a, b] = [wide.rule, narrow.rule];
  if (a.action !== b.action || wide.subject.kind !== narrow.subject.kind) return false;
  if (a.rate !== undefined || a.expires !== undefined) return false;
  const isOfAll = wide.subject.isEveryone && !hasFacts(a);
  return (isOfAll || isEqual(a.subject, b.subject)) && isResourceWithin(a, b);
}

function hasFacts({ subject: { grain, pillar, nodegroup, target } }: PolicyRule): boolean {
  return [grain, pillar, nodegroup, target].some((it) => it !== undefined);
}

function isResourceWithin(wide: PolicyRule, narrow: PolicyRule): boolean {
  if (showsPillar(narrow) && !showsPillar(wide)) return false;
  if (isEqual(wide.resource, narrow.resource)) return true;
  const text = textsOf(wide);
  const isUnconditional = Object.keys(wide.resource).filter((key) => key !== 'facts').length === 1;
  return isUnconditional && (text === '*' || isEqual(text, textsOf(narrow)));
}

function isEqual(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
