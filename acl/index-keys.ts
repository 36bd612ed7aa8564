import type { TextPattern } from './rule.ts';

/** Key of a pattern in the rule index. */
export type RuleIndexKey =
  /** The pattern matches exactly this text. */
  | { readonly kind: 'literal'; readonly text: string }
  /** Substrings that every matching text contains. None of them is empty. */
  | { readonly kind: 'pieces'; readonly pieces: readonly string[] }
  | { readonly kind: 'any' };

/** Returns the key under which the rule index finds a glob or regular expression. */
export function indexKeyOf(pattern: TextPattern): RuleIndexKey {
  if (typeof pattern !== 'string') return { kind: 'any' };
  return /[*?[]/.test(pattern) ? indexKeyOfGlobs([pattern]) : { kind: 'literal', text: pattern };
}

/**
 * Returns the index key of a pattern that is a sequence of globs. A text matches the pattern if it
 * consists of one match of each glob, in order.
 */
export function indexKeyOfGlobs(globs: readonly string[]): RuleIndexKey {
  // Split at wildcards and character sets. The text from an unclosed `[` on is left out.
  const pieces = globs.flatMap((glob) => glob.split(/\[!?\]?[^\]]*\]?|[*?]/));
  const some = pieces.filter((piece) => piece !== '');
  return some.length === 0 ? { kind: 'any' } : { kind: 'pieces', pieces: some };
}
