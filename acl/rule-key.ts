/** By what a rule is found: literal pieces that every text which it means has in it. */
import type { TextPattern } from './rule.ts';

/** One pattern of a rule, as an index sees it. */
export type RuleKey =
  /** It means this text alone. */
  | { readonly kind: 'literal'; readonly text: string }
  /** Whatever it means has all of these in it; none of them is empty. */
  | { readonly kind: 'pieces'; readonly pieces: readonly string[] }
  | { readonly kind: 'any' };

/** What a glob or an expression is found by. */
export function keyOf(pattern: TextPattern): RuleKey {
  if (typeof pattern !== 'string') return { kind: 'any' };
  return /[*?[]/.test(pattern) ? keyOfPieces([pattern]) : { kind: 'literal', text: pattern };
}

/** What globs are found by that stand in a text one behind the other. */
export function keyOfPieces(globs: readonly string[]): RuleKey {
  // A set, or a wildcard; what is no set after all is not looked for either.
  const pieces = globs.flatMap((glob) => glob.split(/\[!?\]?[^\]]*\]|[*?[]/));
  const some = pieces.filter((piece) => piece !== '');
  return some.length === 0 ? { kind: 'any' } : { kind: 'pieces', pieces: some };
}
