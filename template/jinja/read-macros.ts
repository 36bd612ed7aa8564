/** Macros, and what is handed to them and to filters as a block [jinja2/parser.py]. */
import type { Expression, NameNode, Statement } from './ast.ts';
import { parseBlockFilters, parseExpression } from './parse-expression.ts';
import { parseTargetName } from './parse-target.ts';
import { Scope } from './scope.ts';
import type { StatementBody } from './statement-reader.ts';
import type { TokenStream } from './token-stream.ts';

interface Signature {
  readonly parameters: readonly NameNode[];
  readonly defaults: readonly Expression[];
}

function readSignature(stream: TokenStream): Signature {
  const parameters: NameNode[] = [];
  const defaults: Expression[] = [];
  stream.expect('(');
  while (!stream.at(')')) {
    if (parameters.length > 0) stream.expect(',');
    const parameter = parseTargetName(stream, 'parameter');
    if (parameters.some(({ name }) => name === parameter.name)) {
      stream.fail(`duplicate argument '${parameter.name}'`, parameter.line, 'SyntaxError');
    }
    if (stream.skipIf('=')) defaults.push(parseExpression(stream));
    else if (defaults.length > 0) stream.fail('non-default argument follows default argument');
    parameters.push(parameter);
  }
  stream.expect(')');
  return { parameters, defaults };
}

/** What a macro is found to take when it is analysed. */
export const macroParts = { takesCaller: false, takesKwargs: false, takesVarargs: false };

/** `macro`. @throws SyntaxProblem */
export function readMacro(parser: StatementBody, stream: TokenStream, line: number): Statement {
  const { name } = parseTargetName(stream, 'store');
  const signature = readSignature(stream);
  const body = parser.block('endmacro');
  return { kind: 'macro', line, name, ...signature, ...macroParts, body, scope: new Scope() };
}

/** `call`. @throws SyntaxProblem */
export function readCallBlock(parser: StatementBody, stream: TokenStream, line: number): Statement {
  const signature = stream.at('(') ? readSignature(stream) : { parameters: [], defaults: [] };
  const call = parseExpression(stream);
  if (call.kind !== 'call') stream.fail('expected call', line);
  const body = parser.block('endcall');
  return { kind: 'callBlock', line, call, ...signature, ...macroParts, body, scope: new Scope() };
}

/** `filter`. @throws SyntaxProblem */
export function readFilterBlock(
  parser: StatementBody,
  stream: TokenStream,
  line: number,
): Statement {
  const filter = parseBlockFilters(stream);
  return { kind: 'filterBlock', line, filter, body: parser.block('endfilter'), scope: new Scope() };
}
