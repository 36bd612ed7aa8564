/**
 * Compiles globs like Python's `fnmatch.fnmatchcase`, as used in Salt's targets, key commands and
 * autosign files. Supports `*`, `?`, `[abc]`, `[a-c]` and `[!abc]`. There are no escapes, and `/`
 * and `.` are ordinary characters.
 */

type Token =
  | { readonly type: 'star' }
  | { readonly type: 'one'; readonly accepts: (character: string) => boolean };

/**
 * Compiles a glob to a predicate for whole texts. The number of steps is at most the product of
 * both lengths, so pattern and text may be untrusted.
 */
export function compileGlob(pattern: string): (text: string) => boolean {
  const tokens = parse(Array.from(pattern));
  const isLiteral = !/[*?[]/.test(pattern);
  return isLiteral ? (text) => text === pattern : (text) => matches(tokens, Array.from(text));
}

/**
 * Matches with backtracking to the last star only. Parts before it never need to be matched again.
 */
function matches(tokens: readonly Token[], text: readonly string[]): boolean {
  let token = 0;
  let position = 0;
  let retry: { readonly token: number; position: number } | undefined;
  while (position < text.length) {
    const next = tokens[token];
    const character = text[position];
    if (next?.type === 'star') {
      token++;
      retry = { token, position };
    } else if (next !== undefined && character !== undefined && next.accepts(character)) {
      token++;
      position++;
    } else if (retry !== undefined) {
      retry.position++;
      token = retry.token;
      position = retry.position;
    } else {
      return false;
    }
  }
  return tokens.slice(token).every(({ type }) => type === 'star');
}

function parse(pattern: readonly string[]): Token[] {
  const tokens: Token[] = [];
  let index = 0;
  while (index < pattern.length) {
    const character = pattern[index] ?? '';
    const end = character === '[' ? endOfSet(pattern, index + 1) : -1;
    if (end !== -1) {
      tokens.push(parseSet(pattern.slice(index + 1, end)));
      index = end + 1;
      continue;
    }
    if (character !== '*') {
      tokens.push({ type: 'one', accepts: (other) => character === '?' || other === character });
    } else if (tokens.at(-1)?.type !== 'star') {
      tokens.push({ type: 'star' });
    }
    index++;
  }
  return tokens;
}

/**
 * Returns the index of the `]` that ends a set. Returns -1 if there is none; the `[` is then an
 * ordinary character.
 */
function endOfSet(pattern: readonly string[], start: number): number {
  const first = pattern[start] === '!' ? start + 1 : start;
  return pattern.indexOf(']', first + 1);
}

function parseSet(content: readonly string[]): Token {
  const isNegated = content[0] === '!';
  const members = isNegated ? content.slice(1) : content;
  const ranges: (readonly [from: number, to: number])[] = [];
  for (let i = 0; i < members.length; i++) {
    const from = codePoint(members[i]);
    const isRange = members[i + 1] === '-' && i + 2 < members.length;
    ranges.push([from, isRange ? codePoint(members[i + 2]) : from]);
    if (isRange) i += 2;
  }
  const contains = (character: string): boolean => {
    const code = codePoint(character);
    return ranges.some(([from, to]) => from <= code && code <= to);
  };
  return { type: 'one', accepts: (character) => contains(character) !== isNegated };
}

function codePoint(character: string | undefined): number {
  return character?.codePointAt(0) ?? -1;
}
