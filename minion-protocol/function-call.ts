/**
 * Recognises function names and keyword arguments in function calls, with the same rules as a
 * minion.
 */

/**
 * Form of the name in a keyword argument `name=value`. Salt uses Python's
 * `^([^\d\W][\w.-]*)=(?!=)(.*)$` (salt/utils/args.py), where `.` matches everything except a line
 * feed.
 */
const keywordName = /^[\p{L}\p{Nl}\p{No}_][\p{L}\p{N}_.-]*$/u;

const functionName = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$/;

/** Whether the text is a function name of the form `module.function`. */
export function isFunctionName(fun: string): boolean {
  return functionName.test(fun);
}

/**
 * Whether a minion treats a text argument as the keyword argument `name=value`. Minions do so even
 * if the text is among the positional arguments.
 */
export function isKeywordText(text: string): boolean {
  return keywordNameOf(text) !== undefined;
}

/** Returns the name in `name=value`, or `undefined` for any other text. */
export function keywordNameOf(text: string): string | undefined {
  const end = text.indexOf('=');
  if (end < 1 || text[end + 1] === '=') return undefined;
  const newline = text.indexOf('\n', end);
  if (newline !== -1 && newline !== text.length - 1) return undefined;
  const name = text.slice(0, end);
  return keywordName.test(name) ? name : undefined;
}
