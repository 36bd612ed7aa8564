/** What in a policy does nothing, or not what it seems to. */

import { type CompiledRule, kindOfSubject, showsPillar, textsOf } from './compile-rule.ts';
import type { Policy } from './policy.ts';
import { isReservedTag } from './reserved-tags.ts';
import type { PolicyRule, TextPattern, TextPatterns } from './rule.ts';
import type { RuleOrigin } from './types.ts';

// Overlap of two rules: certain only where they do not overlap.

const selectors = [
  ...(['minion', 'user', 'group', 'eauth', 'project', 'role', 'domain'] as const),
  ...(['service', 'token'] as const),
];

/** Whether there may be a subject and a resource that both rules mean. */
function mayOverlap(left: PolicyRule, right: PolicyRule): boolean {
  return (
    left.action === right.action &&
    kindOfSubject(left.subject) === kindOfSubject(right.subject) &&
    selectors.every((name) => patternsMayOverlap(left.subject[name], right.subject[name])) &&
    patternsMayOverlap(textsOf(left), textsOf(right))
  );
}

function patternsMayOverlap(
  left: TextPatterns | undefined,
  right: TextPatterns | undefined,
): boolean {
  if (left === undefined || right === undefined) return true;
  return listOf(left).some((a) => listOf(right).some((b) => mayBothMatch(a, b)));
}

function listOf(patterns: TextPatterns): readonly TextPattern[] {
  return typeof patterns === 'string' || 'regex' in patterns ? [patterns] : patterns;
}

function mayBothMatch(left: TextPattern, right: TextPattern): boolean {
  return typeof left !== 'string' || typeof right !== 'string' || globsOverlap(left, right);
}

/** Whether a text may match both globs; `${…}` and `[…]` in them count as anything. */
export function globsOverlap(left: string, right: string): boolean {
  const [a, b] = [piecesOf(left), piecesOf(right)];
  // Whether the rest of `a` from one piece on, and that of `b` from each on, meet.
  let below = b.map((_, at) => b.slice(at).every(isAnyText));
  below.push(true);
  for (const piece of a.toReversed()) {
    const row = new Array<boolean>(b.length + 1).fill(false);
    row[b.length] = isAnyText(piece) && below[b.length] === true;
    for (let at = b.length - 1; at >= 0; at -= 1) {
      row[at] = piecesOverlap(piece, b[at] ?? '', {
        skipA: below[at],
        skipB: row[at + 1],
        both: below[at + 1],
      });
    }
    below = row;
  }
  return below[0] === true;
}

interface RestOverlaps {
  readonly skipA: boolean | undefined;
  readonly skipB: boolean | undefined;
  readonly both: boolean | undefined;
}

function piecesOverlap(a: string, b: string, { skipA, skipB, both }: RestOverlaps): boolean {
  if (isAnyText(a)) return skipA === true || skipB === true;
  if (isAnyText(b)) return skipB === true || skipA === true;
  return both === true && (a === b || a === '?' || b === '?');
}

function isAnyText(piece: string): boolean {
  return piece === '*';
}

/** Characters, `?` for any one of them, `*` for any text. */
function piecesOf(glob: string): string[] {
  const pieces = glob.match(/\$\{[^}]*\}|\[[^\]]+\]|./gsu) ?? [];
  return pieces.map((piece) => {
    if (piece.startsWith('${')) return '*';
    return piece.startsWith('[') && piece.length > 1 ? '?' : piece;
  });
}

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
