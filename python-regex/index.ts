/** Python's regular expressions, written anew for the engines that run them. */
export { backtrackingDialect, linearDialect } from './dialects.ts';
export { translatePython } from './translate.ts';
