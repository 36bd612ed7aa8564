/**
 * Classifies Salt's functions by function-lists.json. The class of a function determines what an
 * operator must confirm before a command may call the function.
 *
 * `reviewed`: functions of Salt 3007's own modules that need no confirmation. They only read, or
 * act on one named thing. They neither run text as code, nor open paths or URLs that a caller
 * names. Each function has a list of the keywords that a command may set. A keyword accepts one
 * word: letters, digits and `_.:@%+~-`. A keyword with the suffix `*` accepts any text. `**`
 * permits any keywords with any text. docs/named-commands.md describes how the list was created.
 *
 * `unsafe`: globs of functions that run, fetch or write their arguments. A command for one of these
 * functions must have the field `unsafe: i-understand`.
 *
 * A command for a function in neither list must have the field `reviewed`, because no such list is
 * complete.
 */

import { compileGlob } from '#template/python/fnmatch.ts';
import lists from './function-lists.json' with { type: 'json' };

/** Keyword arguments that are permitted for a function which was reviewed for safety. */
export interface ReviewedFunction {
  /** Whether every keyword argument is permitted, with any text as its value. */
  readonly isOpen: boolean;
  /** Permitted values by keyword argument: any text, or a single word. */
  readonly keywords: ReadonlyMap<string, 'text' | 'word'>;
}

/**
 * Classification of a function: on the list of reviewed functions, on the list of unsafe ones, or
 * on neither.
 */
export type FunctionReview =
  | { readonly kind: 'reviewed'; readonly reviewed: ReviewedFunction }
  | { readonly kind: 'unsafe' }
  | { readonly kind: 'unknown' };

/**
 * Returns the classification of a function, according to the lists of reviewed and unsafe
 * functions.
 */
export type FunctionReviews = (fun: string) => FunctionReview;

/** Parses the lists of reviewed and unsafe functions that saltbridge contains. */
export function loadFunctionReviews(): FunctionReviews {
  const reviewed = new Map(lists.reviewed.map(parseReviewedLine));
  const unsafe = lists.unsafe.map((glob) => compileGlob(glob));
  return (fun) => {
    const known = reviewed.get(fun);
    if (known !== undefined) return { kind: 'reviewed', reviewed: known };
    return { kind: unsafe.some((means) => means(fun)) ? 'unsafe' : 'unknown' };
  };
}

/**
 * Returns the function's entry in the list of reviewed functions, or `undefined` if it is not in
 * this list.
 */
export function reviewedFunctionOf(standing: FunctionReview): ReviewedFunction | undefined {
  return standing.kind === 'reviewed' ? standing.reviewed : undefined;
}

function parseReviewedLine(line: string): [string, ReviewedFunction] {
  const [fun = '', ...words] = line.split(' ');
  const isOpen = words.includes('**');
  const keywords = words
    .filter((word) => word !== '**')
    .map((word) => [word.replace('*', ''), word.endsWith('*') ? 'text' : 'word'] as const);
  return [fun, { isOpen, keywords: new Map(keywords) }];
}
