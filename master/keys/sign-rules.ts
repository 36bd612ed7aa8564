import { RE2JS } from 're2js';
import { compileGlob } from '../../minion-protocol/index.ts';

/** The lines of a file of {@link compileSignRules}. */
export interface SignRules {
  matches(id: string): boolean;
  /** Lines (1 is the first) that were meant as regular expressions and cannot be read. */
  readonly unreadable: readonly number[];
}

/**
 * Compiles the text of an `autosign_file` or `autoreject_file` [WIRE 7.6]: an expression a line,
 * which matches as a glob or as a regular expression of the whole id. Salt leaves alternatives
 * (`a|b`) open at their inner ends; here they are closed too.
 */
export function compileSignRules(text: string): SignRules {
  const tests: ((id: string) => boolean)[] = [];
  const unreadable: number[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    const expression = line.trim();
    if (expression === '' || expression.startsWith('#')) continue;
    tests.push(compileGlob(expression));
    if (/^[\w-]+$/.test(expression)) continue; // as an expression it means the same
    const regex = tryRegex(expression);
    if (regex !== undefined) tests.push((id) => regex.matches(id));
    // Most globs are no expressions; what begins a group with a flag was meant as one.
    else if (expression.includes('(?')) unreadable.push(index + 1);
  }
  return { matches: (id) => tests.some((test) => test(id)), unreadable };
}

function tryRegex(expression: string): RE2JS | undefined {
  try {
    return RE2JS.compile(expression);
  } catch {
    return undefined;
  }
}
