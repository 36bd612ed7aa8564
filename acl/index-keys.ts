import type { TextPattern } from './rule.ts';

/** Key by which an index finds one pattern of a rule. */
export type RuleIndexKey =
  /** The pattern matches exactly this text. */
  | { readonly kind: 'literal'; readonly text: string }
  /** Every match contains all of these pieces. No piece is empty. */
  | { readonly kind: 'pieces'; readonly pieces: readonly string[] }
  | { readonly kind: 'any' };

/** Returns the key of a glob or regular expression. */
export function indexKeyOf(pattern: TextPattern): RuleIndexKey {
  if (typeof pattern !== 'string') return { kind: 'any' };
  return /[*?[]/.test(pattern) ? indexKeyOfGlobs([pattern]) : { kind: 'literal', text: pattern };
}

/** Returns the key of consecutive globs within a text. */
export function indexKeyOfGlobs(globs: readonly string[]): RuleIndexKey {
  // Splits at sets and wildcards. An unclosed set is not used for the lookup either.
  const pieces = globs.flatMap((glob) => glob.split(/\[!?\]?[^\]]*\]|[*?[]/));
  const some = pieces.filter((piece) => piece !== '');
  return some.length === 0 ? { kind: 'any' } : { kind: 'pieces', pieces: some };
}
