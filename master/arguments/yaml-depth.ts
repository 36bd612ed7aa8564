/** How deep a YAML text is, found without recursion. */
import { CST, Lexer, Parser } from 'yaml';

/** Levels that are read: more than a request to a minion may have. */
const maxDepth = 64;

/**
 * Reading a document is recursive, and a stack that is nearly full ends the process where V8
 * compiles a regular expression then: the depth is bounded before.
 * @throws SyntaxError
 */
export function checkYamlDepth(text: string): void {
  checkLines(text);
  for (const token of new Parser().parse(text)) {
    const waiting: [token: CST.Token | null | undefined, depth: number][] = [[token, 0]];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [found, depth] = next;
      if (depth > maxDepth) throw tooDeep();
      for (const child of childrenOf(found)) waiting.push([child, depth + 1]);
    }
  }
}

/** What opens levels within one line or one flow: found before anything is built from it. */
function checkLines(text: string): void {
  let flows = 0;
  let indicators = 0;
  for (const lexeme of new Lexer().lex(text)) {
    const type = CST.tokenType(lexeme);
    if (type === 'flow-seq-start' || type === 'flow-map-start') flows += 1;
    else if (type === 'flow-seq-end' || type === 'flow-map-end') flows -= 1;
    else if (type === 'seq-item-ind' || type === 'explicit-key-ind') indicators += 1;
    else if (type === 'newline') indicators = 0;
    if (flows > maxDepth || indicators > maxDepth) throw tooDeep();
  }
}

function tooDeep(): SyntaxError {
  return new SyntaxError('the text is nested too deeply');
}

function childrenOf(token: CST.Token | null | undefined): (CST.Token | null | undefined)[] {
  if (token?.type === 'document') return [token.value];
  if (token === null || token === undefined || !('items' in token)) return [];
  return token.items.flatMap(({ key, value }) => [key, value]);
}
