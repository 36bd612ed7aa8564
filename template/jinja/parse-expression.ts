/** Parses expressions [jinja2/parser.py]. */

import type { BinaryOperator } from '../python/operators.ts';
import { textRepr } from '../python/repr.ts';
import type {
  CallArguments,
  CallNode,
  CompareOperator,
  Expression,
  FilterNode,
  NameNode,
  Target,
} from './ast.ts';
import { describeToken, type TokenStream } from './lexer.ts';

/** Values of the constants of Jinja, by name. */
const literalConstants: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
]);

/** Options for parsing a tuple. */
export interface TupleOptions {
  /** Whether `a if b else c` is allowed. Default: true. */
  readonly conditional?: boolean;
  /** Word that ends the tuple, for example `in`. */
  readonly end?: string;
  /** Whether the tuple is in parentheses and may be empty. Default: false. */
  readonly inParentheses?: boolean;
}

/**
 * Parses an expression, or `a, b` as a tuple.
 * @throws JinjaSyntaxError
 */
export function parseTuple(stream: TokenStream, options: TupleOptions = {}): Expression {
  const { conditional = true, end, inParentheses = false } = options;
  const { line } = stream.current;
  const items: Expression[] = [];
  let isTuple = false;
  while (!atTupleEnd(stream, end)) {
    items.push(conditional ? parseExpression(stream) : parseOr(stream));
    if (!stream.at(',')) break;
    isTuple = true;
    stream.next();
  }
  const [first] = items;
  if (!isTuple && first !== undefined) return first;
  if (!isTuple && !inParentheses) {
    stream.fail(`Expected an expression, got ${textRepr(describeToken(stream.current))}`);
  }
  return { kind: 'tuple', line, items };
}

/**
 * Whether the current token ends a tuple.
 * @param end - word that also ends it
 */
function atTupleEnd(stream: TokenStream, end: string | undefined): boolean {
  const { type } = stream.current;
  if (type === 'variable_end' || type === 'block_end' || type === ')') return true;
  return end !== undefined && stream.atName(end);
}

/**
 * Parses an expression.
 * @throws JinjaSyntaxError
 */
export function parseExpression(stream: TokenStream): Expression {
  return stream.nested(() => {
    let { line } = stream.current;
    let node = parseOr(stream);
    while (stream.skipName('if')) {
      const test = parseOr(stream);
      const no = stream.skipName('else') ? parseExpression(stream) : undefined;
      node = { kind: 'conditional', line, test, yes: node, no };
      line = stream.current.line;
    }
    return node;
  });
}

function parseOr(stream: TokenStream): Expression {
  let { line } = stream.current;
  let left = parseAnd(stream);
  while (stream.skipName('or')) {
    left = { kind: 'or', line, left, right: parseAnd(stream) };
    line = stream.current.line;
  }
  return left;
}

function parseAnd(stream: TokenStream): Expression {
  let { line } = stream.current;
  let left = parseNot(stream);
  while (stream.skipName('and')) {
    left = { kind: 'and', line, left, right: parseNot(stream) };
    line = stream.current.line;
  }
  return left;
}

function parseNot(stream: TokenStream): Expression {
  const { line } = stream.current;
  if (!stream.skipName('not')) return parseCompare(stream);
  return { kind: 'not', line, operand: stream.nested(() => parseNot(stream)) };
}

function parseCompare(stream: TokenStream): Expression {
  const { line } = stream.current;
  const first = parseSum(stream);
  const rest: [CompareOperator, Expression][] = [];
  for (;;) {
    const operator = takeCompareOperator(stream);
    if (operator === undefined) break;
    rest.push([operator, parseSum(stream)]);
  }
  return rest.length === 0 ? first : { kind: 'compare', line, first, rest };
}

function takeCompareOperator(stream: TokenStream): CompareOperator | undefined {
  const { type } = stream.current;
  switch (type) {
    case '==':
    case '!=':
    case '<':
    case '<=':
    case '>':
    case '>=':
      stream.next();
      return type;
  }
  if (stream.skipName('in')) return 'in';
  const next = stream.atName('not') ? stream.look() : undefined;
  if (next?.type !== 'name' || next.text !== 'in') return undefined;
  stream.next();
  stream.next();
  return 'not in';
}

function parseSum(stream: TokenStream): Expression {
  return parseBinary(stream, ['+', '-'], parseConcat);
}

function parseConcat(stream: TokenStream): Expression {
  const { line } = stream.current;
  const first = parseProduct(stream);
  const items = [first];
  while (stream.skipIf('~')) items.push(parseProduct(stream));
  return items.length === 1 ? first : { kind: 'concat', line, items };
}

function parseProduct(stream: TokenStream): Expression {
  return parseBinary(stream, ['*', '/', '//', '%'], parsePower);
}

function parsePower(stream: TokenStream): Expression {
  return parseBinary(stream, ['**'], (inner) => parseUnary(inner, true));
}

function parseBinary(
  stream: TokenStream,
  operators: readonly BinaryOperator[],
  operand: (stream: TokenStream) => Expression,
): Expression {
  let { line } = stream.current;
  let left = operand(stream);
  for (;;) {
    const operator = operators.find((symbol) => stream.at(symbol));
    if (operator === undefined) return left;
    stream.next();
    left = { kind: 'binary', line, operator, left, right: operand(stream) };
    line = stream.current.line;
  }
}

function parseUnary(stream: TokenStream, withFilter: boolean): Expression {
  const { line } = stream.current;
  const operator = stream.at('-') ? '-' : stream.at('+') ? '+' : undefined;
  let node: Expression;
  if (operator === undefined) {
    node = parsePrimary(stream);
  } else {
    stream.next();
    const operand = stream.nested(() => parseUnary(stream, false));
    node = { kind: 'unary', line, operator, operand };
  }
  node = parsePostfix(stream, node);
  return withFilter ? parseFilterExpression(stream, node) : node;
}

/**
 * Parses a primary expression, without postfix operators.
 * @throws JinjaSyntaxError
 */
function parsePrimary(stream: TokenStream): Expression {
  const token = stream.current;
  const { line, text, type } = token;
  switch (type) {
    case 'name':
      stream.next();
      return nameOrConstant(text, line);
    case 'string':
      return { kind: 'const', line, value: takeStrings(stream) };
    case 'integer':
    case 'float':
      stream.next();
      return { kind: 'const', line, value: token.value };
    case '(': {
      stream.next();
      const node = stream.nested(() => parseTuple(stream, { inParentheses: true }));
      stream.expect(')');
      return node;
    }
    case '[':
      return parseList(stream);
    case '{':
      return parseDict(stream);
    default:
      return stream.fail(`unexpected ${textRepr(describeToken(token))}`);
  }
}

function nameOrConstant(name: string, line: number): Expression {
  const value = literalConstants.get(name);
  if (value !== undefined) return { kind: 'const', line, value };
  return { kind: 'name', line, name, use: 'load' };
}

/** Joins adjacent string literals. */
function takeStrings(stream: TokenStream): string {
  let text = '';
  while (stream.at('string')) text += stream.next().text;
  return text;
}

function parseList(stream: TokenStream): Expression {
  const { line } = stream.expect('[');
  const items: Expression[] = [];
  while (!stream.at(']')) {
    if (items.length > 0) stream.expect(',');
    if (stream.at(']')) break;
    items.push(parseExpression(stream));
  }
  stream.expect(']');
  return { kind: 'list', line, items };
}

function parseDict(stream: TokenStream): Expression {
  const { line } = stream.expect('{');
  const pairs: [Expression, Expression][] = [];
  while (!stream.at('}')) {
    if (pairs.length > 0) stream.expect(',');
    if (stream.at('}')) break;
    const key = parseExpression(stream);
    stream.expect(':');
    pairs.push([key, parseExpression(stream)]);
  }
  stream.expect('}');
  return { kind: 'dict', line, pairs };
}

function parsePostfix(stream: TokenStream, start: Expression): Expression {
  let node = start;
  for (;;) {
    if (stream.at('.')) node = parseAttribute(stream, node);
    else if (stream.at('[')) node = parseSubscript(stream, node);
    else if (stream.at('(')) node = parseCall(stream, node);
    else return node;
  }
}

function parseFilterExpression(stream: TokenStream, start: Expression): Expression {
  let node = start;
  for (;;) {
    if (stream.skipIf('|')) node = parseFilter(stream, node);
    else if (stream.atName('is')) node = parseTest(stream, node);
    else if (stream.at('(')) node = parseCall(stream, node);
    else return node;
  }
}

function parseAttribute(stream: TokenStream, target: Expression): Expression {
  const { line } = stream.next();
  const token = stream.next();
  if (token.type === 'name') return { kind: 'attribute', line, target, name: token.text };
  if (token.type !== 'integer') stream.fail('expected name or number', token.line);
  const key: Expression = { kind: 'const', line: token.line, value: token.value };
  return { kind: 'item', line, target, key };
}

function parseSubscript(stream: TokenStream, target: Expression): Expression {
  const { line } = stream.expect('[');
  const keys: Expression[] = [];
  while (!stream.at(']')) {
    if (keys.length > 0) stream.expect(',');
    const isSliceStart = stream.at(':');
    const start = isSliceStart ? undefined : parseExpression(stream);
    if (stream.at(':')) {
      const slice = parseSlice(stream, target, line, start);
      if (keys.length === 0 && stream.skipIf(']')) return slice;
      stream.fail('slices inside a tuple are not supported');
    }
    if (start !== undefined) keys.push(start);
  }
  stream.expect(']');
  const [only] = keys;
  const key: Expression =
    only !== undefined && keys.length === 1 ? only : { kind: 'tuple', line, items: keys };
  return { kind: 'item', line, target, key };
}

function parseSlice(
  stream: TokenStream,
  target: Expression,
  line: number,
  start: Expression | undefined,
): Expression {
  const part = (): Expression | undefined =>
    stream.at(':') || stream.at(']') || stream.at(',') ? undefined : parseExpression(stream);
  stream.expect(':');
  const stop = part();
  const step = stream.skipIf(':') ? part() : undefined;
  return { kind: 'slice', line, target, start, stop, step };
}

function parseCall(stream: TokenStream, target: Expression): CallNode {
  const { line } = stream.current;
  return { kind: 'call', line, target, ...parseArguments(stream) };
}

const noArguments: CallArguments = {
  positional: [],
  named: [],
  morePositional: undefined,
  moreNamed: undefined,
};

function parseArguments(stream: TokenStream): CallArguments {
  const { line } = stream.expect('(');
  const positional: Expression[] = [];
  const named: [string, Expression][] = [];
  let morePositional: Expression | undefined;
  let moreNamed: Expression | undefined;
  const ensure = (isAllowed: boolean): void => {
    if (!isAllowed) stream.fail('invalid syntax for function call expression', line);
  };
  let needsComma = false;
  while (!stream.at(')')) {
    if (needsComma) {
      stream.expect(',');
      if (stream.at(')')) break;
    }
    needsComma = true;
    if (stream.at('*')) {
      ensure(morePositional === undefined && moreNamed === undefined);
      stream.next();
      morePositional = parseExpression(stream);
    } else if (stream.at('**')) {
      ensure(moreNamed === undefined);
      stream.next();
      moreNamed = parseExpression(stream);
    } else if (stream.at('name') && stream.look().type === '=') {
      ensure(moreNamed === undefined);
      const name = stream.next().text;
      stream.next();
      if (named.some(([known]) => known === name)) {
        stream.fail(`keyword argument repeated: ${name}`, line, 'SyntaxError');
      }
      named.push([name, parseExpression(stream)]);
    } else {
      ensure(morePositional === undefined && moreNamed === undefined && named.length === 0);
      positional.push(parseExpression(stream));
    }
  }
  stream.expect(')');
  return { positional, named, morePositional, moreNamed };
}

function parseDottedName(stream: TokenStream): string {
  let name = stream.expect('name').text;
  while (stream.skipIf('.')) name += `.${stream.expect('name').text}`;
  return name;
}

/**
 * Parses one filter after its `|`.
 * @throws JinjaSyntaxError
 */
function parseFilter(stream: TokenStream, target: Expression | undefined): FilterNode {
  const { line } = stream.current;
  const name = parseDottedName(stream);
  const args = stream.at('(') ? parseArguments(stream) : noArguments;
  return { kind: 'filter', line, target, name, ...args };
}

/**
 * Parses the filters of a block, `a|b`.
 * @throws JinjaSyntaxError
 */
export function parseBlockFilters(stream: TokenStream): FilterNode {
  let node = parseFilter(stream, undefined);
  while (stream.skipIf('|')) node = parseFilter(stream, node);
  return node;
}

const testArguments = ['name', 'string', 'integer', 'float', '(', '[', '{'] as const;

function parseTest(stream: TokenStream, target: Expression): Expression {
  const { line } = stream.next();
  const isNegated = stream.skipName('not');
  const name = parseDottedName(stream);
  const test: Expression = { kind: 'test', line, target, name, ...parseTestArguments(stream) };
  return isNegated ? { kind: 'not', line, operand: test } : test;
}

function parseTestArguments(stream: TokenStream): CallArguments {
  if (stream.at('(')) return parseArguments(stream);
  if (!testArguments.some((type) => stream.at(type)) || stream.atName('else', 'or', 'and')) {
    return noArguments;
  }
  if (stream.atName('is')) stream.fail('You cannot chain multiple tests with is');
  return { ...noArguments, positional: [parsePostfix(stream, parsePrimary(stream))] };
}

/**
 * Parses a single name to assign to.
 * @throws JinjaSyntaxError
 */
export function parseTargetName(stream: TokenStream, use: 'store' | 'parameter'): NameNode {
  const { text, line } = stream.expect('name');
  if (literalConstants.has(text)) stream.fail("can't assign to 'name'", line);
  return { kind: 'name', line, name: text, use };
}

/**
 * Parses the target of a loop, `set` or `with`.
 * @throws JinjaSyntaxError
 */
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
    stream.fail(`Expected an expression, got ${textRepr(describeToken(stream.current))}`);
  }
  return { kind: 'targets', line, items };
}

function asTarget(stream: TokenStream, node: Expression, use: 'store' | 'parameter'): Target {
  const { line } = node;
  if (node.kind === 'name') return { ...node, use };
  if (node.kind === 'tuple') {
    return { kind: 'targets', line, items: node.items.map((item) => asTarget(stream, item, use)) };
  }
  return stream.fail(`can't assign to ${textRepr(node.kind)}`, line);
}
