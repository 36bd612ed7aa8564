/** What is known of a minion's function before anybody exposes it. */
import { compileGlob } from '../../minion-protocol/index.ts';
import { reviewedFunctions } from './reviewed-functions.ts';
import { unsafeFunctions } from './unsafe-functions.ts';

/** Keywords that a reviewed function may be given. */
export interface ReviewedFunction {
  /** True: any, with any text. */
  readonly isOpen: boolean;
  /** By keyword: whether any text will do, or one word alone. */
  readonly keywords: ReadonlyMap<string, 'text' | 'word'>;
}

/** What a function is known for. */
export type FunctionStanding =
  | { readonly kind: 'reviewed'; readonly reviewed: ReviewedFunction }
  | { readonly kind: 'unsafe' }
  | { readonly kind: 'unknown' };

/** Says of functions what the shipped lists say. */
export type Standings = (fun: string) => FunctionStanding;

/** Reads the shipped lists. */
export function createStandings(): Standings {
  const reviewed = new Map(linesOf(reviewedFunctions).map(readReviewed));
  const unsafe = linesOf(unsafeFunctions).map((glob) => compileGlob(glob));
  return (fun) => {
    const known = reviewed.get(fun);
    if (known !== undefined) return { kind: 'reviewed', reviewed: known };
    return { kind: unsafe.some((means) => means(fun)) ? 'unsafe' : 'unknown' };
  };
}

/** A function of the reviewed list. */
export function listed(standing: FunctionStanding): ReviewedFunction | undefined {
  return standing.kind === 'reviewed' ? standing.reviewed : undefined;
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}

function readReviewed(line: string): [string, ReviewedFunction] {
  const [fun = '', ...words] = line.split(' ');
  const isOpen = words.includes('**');
  const keywords = words
    .filter((word) => word !== '**')
    .map((word) => [word.replace('*', ''), word.endsWith('*') ? 'text' : 'word'] as const);
  return [fun, { isOpen, keywords: new Map(keywords) }];
}
