/**
 * Functions of Salt by what an operator must say before they are exposed, from function-lists.json.
 *
 * `reviewed`: functions of Salt 3007's own modules that may be exposed without a word: they only
 * read, or act on one named thing; they neither run text as code, nor open paths or addresses that a
 * caller names. Behind each stand the keywords that a command may give it: a keyword takes one word
 * (letters, digits and `_.:@%+~-`, no `/` and no blank), with `*` behind it any text; `**`: any
 * keywords with any text. docs/bridge.md says how the list was drawn up.
 *
 * `unsafe`: functions that run, fetch or write what they are handed, as globs. A command that stands
 * for one must say `unsafe: i-understand`. What is in neither list needs `reviewed:`; no list of this
 * kind is whole.
 */

import { compileGlob } from '#template/python/fnmatch.ts';
import lists from './function-lists.json' with { type: 'json' };

/** Keywords that a reviewed function may be given. */
export interface ReviewedFunction {
  /** True: any, with any text. */
  readonly isOpen: boolean;
  /** By keyword: whether any text will do, or one word alone. */
  readonly keywords: ReadonlyMap<string, 'text' | 'word'>;
}

/** What a function is known for. */
export type FunctionReview =
  | { readonly kind: 'reviewed'; readonly reviewed: ReviewedFunction }
  | { readonly kind: 'unsafe' }
  | { readonly kind: 'unknown' };

/** Says of functions what the shipped lists say. */
export type FunctionReviews = (fun: string) => FunctionReview;

/** Reads the shipped lists. */
export function loadFunctionReviews(): FunctionReviews {
  const reviewed = new Map(lists.reviewed.map(parseReviewedLine));
  const unsafe = lists.unsafe.map((glob) => compileGlob(glob));
  return (fun) => {
    const known = reviewed.get(fun);
    if (known !== undefined) return { kind: 'reviewed', reviewed: known };
    return { kind: unsafe.some((means) => means(fun)) ? 'unsafe' : 'unknown' };
  };
}

/** A function of the reviewed list. */
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
