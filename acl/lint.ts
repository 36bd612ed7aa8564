/** What in a policy does nothing, or not what it seems to. */

import { type CompiledRule, showsPillar, textsOf } from './compile-rule.ts';
import type { Policy } from './policy.ts';
import { isReservedTag } from './reserved-tags.ts';
import type { PolicyRule } from './rule.ts';
import { mayOverlap } from './rule-overlap.ts';
import type { RuleOrigin } from './types.ts';

/** Something to look at. */
export interface LintFinding {
  readonly kind:
    | 'expired'
    /** No accepted minion is one that it means. */
    | 'matches-no-minion'
    /** A rule that denies may take part of it away. */
    | 'overlapping'
    /** Another rule says the same, or more. */
    | 'redundant'
    /** It can never permit anything. */
    | 'unreachable';
  readonly rule: string;
  readonly origin?: RuleOrigin;
  /** One sentence for a person. */
  readonly reason: string;
}

/**
 * Looks at every rule beside all others. It finds what is certain: a rule that only several others
 * together make needless is not named.
 * @param minionIds those that are accepted; `undefined`: not known
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
      ...reason('expired', time >= compiled.expiresAt ? 'its time is over' : undefined),
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
  return isMet ? undefined : 'no accepted minion has such an id';
}

function unreachableTag(rule: PolicyRule): string | undefined {
  if (rule.action !== 'signal' || rule.effect === 'deny') return undefined;
  const begin = rule.resource.tag.replace(/(?:[*?[]|\$\{).*$/s, '');
  const isWhole = begin === rule.resource.tag;
  const isMasters = (isWhole || begin.endsWith('/')) && isReservedTag(begin.replace(/\/$/, ''));
  return isMasters ? 'no rule reaches tags that the master itself fires' : undefined;
}

function lintPair(compiled: CompiledRule, other: CompiledRule): LintFinding[] {
  const { rule } = compiled;
  const name = other.rule.name;
  if (compiled === other) return [];
  if (!covers(other, compiled)) {
    const isCut = rule.effect === 'allow' && other.rule.effect === 'deny';
    const reason = `${name} denies part of it, or may`;
    return isCut && mayOverlap(rule, other.rule) ? [toFinding(rule, 'overlapping', reason)] : [];
  }
  if (rule.effect !== other.rule.effect) {
    return rule.effect === 'allow'
      ? [toFinding(rule, 'unreachable', `${name} denies all of it`)]
      : [];
  }
  // Of two that say the same, the second one is named.
  const isSame = covers(compiled, other);
  if (isSame && compiled.order < other.order) return [];
  return [toFinding(rule, 'redundant', `${name} says ${isSame ? 'the same' : 'as much'}`)];
}

/** Whether one rule holds wherever another does. */
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
