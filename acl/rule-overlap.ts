/** Detects whether two rules overlap. Only the result "no overlap" is certain. */

import { textsOf } from './compile-resource.ts';
import { kindOfSubject } from './compile-subject.ts';
import type { PolicyRule, TextPattern, TextPatterns } from './rule.ts';
import { asList } from './rule-patterns.ts';

const selectors = [
  ...(['minion', 'user', 'group', 'eauth', 'project', 'role', 'domain'] as const),
  ...(['service', 'token'] as const),
];

/** Whether both rules may match the same subject and resource. */
export function mayOverlap(left: PolicyRule, right: PolicyRule): boolean {
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
  return asList(left).some((a) => asList(right).some((b) => mayBothMatch(a, b)));
}

function mayBothMatch(left: TextPattern, right: TextPattern): boolean {
  return typeof left !== 'string' || typeof right !== 'string' || globsOverlap(left, right);
}

/**
 * Whether some text may match both globs. `${…}` is treated as any text, `[…]` as any character.
 */
export function globsOverlap(left: string, right: string): boolean {
  const [a, b] = [piecesOf(left), piecesOf(right)];
  // One row of the table of overlaps, for a suffix of `a`: whether that suffix overlaps each suffix
  // of `b`.
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

/** Splits a glob into pieces: characters, `?` for any character, `*` for any text. */
function piecesOf(glob: string): string[] {
  const pieces = glob.match(/\$\{[^}]*\}?|\[[^\]]+\]?|./gsu) ?? [];
  return pieces.flatMap((piece) => {
    if (piece.startsWith('${') && piece.endsWith('}')) return '*';
    if (piece.startsWith('[') && piece.endsWith(']')) return '?';
    // Without its end, a set or a variable is ordinary text.
    return [...piece];
  });
}
