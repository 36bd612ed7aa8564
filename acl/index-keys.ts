import type { TextPattern } from './rule.ts';

/** One pattern of a rule, as an index sees it. */
export type RuleIndexKey =
  /** It means this text alone. */
  | { readonly kind: 'literal'; readonly text: string }
  /** Whatever it means has all of these in it; none of them is empty. */
  | { readonly kind: 'pieces'; readonly pieces: readonly string[] }
  | { readonly kind: 'any' };

/** What a glob or an expression is found by. */
export function indexKeyOf(pattern: TextPattern): RuleIndexKey {
  if (typeof pattern !== 'string') return { kind: 'any' };
  return /[*?[]/.test(pattern) ? indexKeyOfGlobs([pattern]) : { kind: 'literal', text: pattern };
}

/** What globs are found by that stand in a text one behind the other. */
export function indexKeyOfGlobs(globs: readonly string[]): RuleIndexKey {
  // A set, or a wildcard; what is no set after all is not looked for either.
  const pieces = globs.flatMap((glob) => glob.split(/\[!?\]?[^\]]*\]|[*?[]/));
  const some = pieces.filter((piece) => piece !== '');
  return some.length === 0 ? { kind: 'any' } : { kind: 'pieces', pieces: some };
}
