/** Statements about other templates [jinja2/parser.py]. */
import type { Statement } from './ast.ts';
import { parseExpression } from './parse-expression.ts';
import { parseTargetName } from './parse-target.ts';
import { Scope } from './scope.ts';
import type { StatementBody } from './statement-reader.ts';
import type { TokenStream } from './token-stream.ts';

/** `block`. @throws SyntaxProblem */
export function readBlock(parser: StatementBody, stream: TokenStream, line: number): Statement {
  const name = stream.expect('name').text;
  const isScoped = stream.skipName('scoped');
  const isRequired = stream.skipName('required');
  if (stream.at('-')) {
    stream.fail(
      'Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an underscore instead.',
    );
  }
  const body = parser.block('endblock');
  if (isRequired && !body.every(isBlank)) {
    stream.fail('Required blocks can only contain comments or whitespace');
  }
  stream.skipName(name);
  return {
    kind: 'block',
    line,
    name,
    isScoped,
    isRequired,
    body,
    scope: new Scope(),
    usesSelf: false,
    usesSuper: false,
  };
}

function isBlank(statement: Statement): boolean {
  if (statement.kind !== 'output') return false;
  return statement.items.every((item) => item.kind === 'data' && item.text.trim() === '');
}

function takeContext(stream: TokenStream, fallback: boolean): boolean {
  const isThere = stream.atName('with', 'without') && isWord(stream, 'context');
  if (!isThere) return fallback;
  const word = stream.next().text;
  stream.next();
  return word === 'with';
}

function isWord(stream: TokenStream, word: string): boolean {
  const { type, text } = stream.look();
  return type === 'name' && text === word;
}

/** `include`. @throws SyntaxProblem */
export function readInclude(_parser: StatementBody, stream: TokenStream, line: number): Statement {
  const template = parseExpression(stream);
  const ignoreMissing = stream.atName('ignore') && isWord(stream, 'missing');
  if (ignoreMissing) {
    stream.next();
    stream.next();
  }
  const withContext = takeContext(stream, true);
  return { kind: 'include', line, template, ignoreMissing, withContext };
}

/** `import … as`. @throws SyntaxProblem */
export function readImport(
  _parser: StatementBody,
  stream: TokenStream,
  line: number,
): Statement & { readonly kind: 'import' } {
  const template = parseExpression(stream);
  stream.expectName('as');
  const target = parseTargetName(stream, 'store').name;
  return { kind: 'import', line, template, target, withContext: takeContext(stream, false) };
}

/** `from … import`. @throws SyntaxProblem */
export function readFrom(_parser: StatementBody, stream: TokenStream, line: number): Statement {
  const template = parseExpression(stream);
  stream.expectName('import');
  const names: [string, string][] = [];
  let withContext: boolean | undefined;
  for (;;) {
    if (names.length > 0) stream.expect(',');
    if (!stream.at('name')) stream.expect('name');
    withContext = contextOf(stream);
    if (withContext !== undefined) break;
    names.push(readImportedName(stream));
    withContext = contextOf(stream);
    if (withContext !== undefined || !stream.at(',')) break;
  }
  return { kind: 'fromImport', line, template, names, withContext: withContext ?? false };
}

function contextOf(stream: TokenStream): boolean | undefined {
  const isThere = stream.atName('with', 'without') && isWord(stream, 'context');
  return isThere ? takeContext(stream, false) : undefined;
}

function readImportedName(stream: TokenStream): [string, string] {
  const { name, line } = parseTargetName(stream, 'store');
  if (name.startsWith('_')) {
    stream.fail(
      'names starting with an underline can not be imported',
      line,
      'TemplateAssertionError',
    );
  }
  return [name, stream.skipName('as') ? parseTargetName(stream, 'store').name : name];
}
