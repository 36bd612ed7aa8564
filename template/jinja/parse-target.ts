/** What values are assigned to [jinja2/parser.py]. */
import type { Expression, NameNode, Target } from './ast.ts';
import { constants } from './constants.ts';
import { atTupleEnd, parsePrimary } from './parse-expression.ts';
import type { TokenStream } from './token-stream.ts';
import { describeToken, quoted } from './tokens.ts';

/** A single name to assign to. @throws SyntaxProblem */
export function parseTargetName(stream: TokenStream, use: 'store' | 'parameter'): NameNode {
  const { text, line } = stream.expect('name');
  if (constants.has(text)) stream.fail("can't assign to 'name'", line);
  return { kind: 'name', line, name: text, use };
}

/** What a loop, `set` or `with` assigns to. @throws SyntaxProblem */
export function parseTarget(
  stream: TokenStream,
  use: 'store' | 'parameter',
  options: { readonly end?: string; readonly namespaces?: boolean } = {},
): Target {
  if (options.namespaces === true && stream.look().type === '.') {
    const { text, line } = stream.expect('name');
    stream.next();
    return { kind: 'namespace', line, name: text, attribute: stream.expect('name').text };
  }
  const { line } = stream.current;
  const items: Target[] = [];
  let isTuple = false;
  while (!atTupleEnd(stream, options.end)) {
    items.push(asTarget(stream, parsePrimary(stream), use));
    if (!stream.at(',')) break;
    isTuple = true;
    stream.next();
  }
  const [first] = items;
  if (!isTuple && first !== undefined) return first;
  if (!isTuple) {
    stream.fail(`Expected an expression, got ${quoted(describeToken(stream.current))}`);
  }
  return { kind: 'targets', line, items };
}

function asTarget(stream: TokenStream, node: Expression, use: 'store' | 'parameter'): Target {
  const { line } = node;
  if (node.kind === 'name') return { ...node, use };
  if (node.kind === 'tuple') {
    return { kind: 'targets', line, items: node.items.map((item) => asTarget(stream, item, use)) };
  }
  return stream.fail(`can't assign to ${quoted(node.kind)}`, line);
}
