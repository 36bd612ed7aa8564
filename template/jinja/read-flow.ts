/** Statements that assign, decide, repeat and print [jinja2/parser.py]. */
import type { Expression, IfNode, Statement } from './ast.ts';
import { parseBlockFilters, parseExpression, parseTuple } from './parse-expression.ts';
import { parseTarget } from './parse-target.ts';
import { Scope } from './scope.ts';
import type { StatementBody } from './statement-reader.ts';
import type { TokenStream } from './token-stream.ts';

/** `set`, of a value or of a block. @throws SyntaxProblem */
export function readSet(parser: StatementBody, stream: TokenStream, line: number): Statement {
  const target = parseTarget(stream, 'store', { namespaces: true });
  if (stream.skipIf('=')) return { kind: 'assign', line, target, value: parseTuple(stream) };
  const filter = stream.skipIf('|') ? parseBlockFilters(stream) : undefined;
  const body = parser.block('endset');
  return { kind: 'assignBlock', line, target, filter, body, scope: new Scope() };
}

/** `for`. @throws SyntaxProblem */
export function readFor(parser: StatementBody, stream: TokenStream, line: number): Statement {
  const target = parseTarget(stream, 'store', { end: 'in' });
  stream.expectName('in');
  const iterable = parseTuple(stream, { conditional: false, end: 'recursive' });
  const test = stream.skipName('if') ? parseExpression(stream) : undefined;
  const isRecursive = stream.skipName('recursive');
  const body = parser.open(['endfor', 'else']);
  const otherwise = stream.next().text === 'endfor' ? [] : parser.block('endfor');
  return {
    kind: 'for',
    line,
    target,
    iterable,
    body,
    otherwise,
    test,
    isRecursive,
    hasLoop: false,
    bodyScope: new Scope(),
    testScope: new Scope(),
    otherwiseScope: new Scope(),
  };
}

/** `if` with its `elif` and `else`. @throws SyntaxProblem */
export function readIf(parser: StatementBody, stream: TokenStream, line: number): Statement {
  const branch = (): Omit<IfNode, 'line' | 'elifs' | 'otherwise'> => ({
    kind: 'if',
    test: parseTuple(stream, { conditional: false }),
    body: parser.open(['elif', 'else', 'endif']),
  });
  const first = branch();
  const elifs: IfNode[] = [];
  let otherwise: Statement[] = [];
  for (;;) {
    const word = stream.next();
    if (word.text === 'elif') {
      const { line: elifLine } = stream.current;
      elifs.push({ ...branch(), line: elifLine, elifs: [], otherwise: [] });
      continue;
    }
    if (word.text === 'else') otherwise = parser.block('endif');
    return { ...first, line, elifs, otherwise };
  }
}

/** `with`. @throws SyntaxProblem */
export function readWith(parser: StatementBody, stream: TokenStream, line: number): Statement {
  const targets = [];
  const values: Expression[] = [];
  while (!stream.at('block_end')) {
    if (targets.length > 0) stream.expect(',');
    targets.push(parseTarget(stream, 'parameter'));
    stream.expect('=');
    values.push(parseExpression(stream));
  }
  const body = parser.block('endwith');
  return { kind: 'with', line, targets, values, body, scope: new Scope() };
}

/** `autoescape false`. @throws SyntaxProblem */
export function readAutoescape(
  parser: StatementBody,
  stream: TokenStream,
  line: number,
): Statement {
  const value = parseExpression(stream);
  if (value.kind !== 'const' || value.value !== false) {
    stream.fail('autoescape can only be switched off here', line, 'Unsupported');
  }
  return { kind: 'scope', line, body: parser.block('endautoescape'), scope: new Scope() };
}

/** `print`. @throws SyntaxProblem */
export function readPrint(_parser: StatementBody, stream: TokenStream, line: number): Statement {
  const items: Expression[] = [];
  while (!stream.at('block_end')) {
    if (items.length > 0) stream.expect(',');
    items.push(parseExpression(stream));
  }
  return { kind: 'output', line, items };
}
