/** Parses statements [jinja2/parser.py, jinja2/ext.py, salt/utils/jinja.py]. */

import { textRepr } from '../python/repr.ts';
import type { DataNode, Expression, IfNode, NameNode, Statement } from './ast.ts';
import type { TokenStream } from './lexer.ts';
import {
  parseBlockFilters,
  parseExpression,
  parseTarget,
  parseTargetName,
  parseTuple,
} from './parse-expression.ts';
import { Scope } from './scope.ts';

/**
 * Parses `set` of a value or a block.
 * @throws JinjaSyntaxError
 */
function readSet(parser: StatementParserContext, stream: TokenStream, line: number): Statement {
  const target = parseTarget(stream, 'store', { namespaces: true });
  if (stream.skipIf('=')) return { kind: 'assign', line, target, value: parseTuple(stream) };
  const filter = stream.skipIf('|') ? parseBlockFilters(stream) : undefined;
  const body = parser.block('endset');
  return { kind: 'assignBlock', line, target, filter, body, scope: new Scope() };
}

/**
 * Parses `for`.
 * @throws JinjaSyntaxError
 */
function readFor(parser: StatementParserContext, stream: TokenStream, line: number): Statement {
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

/**
 * Parses `if` with its `elif` and `else`.
 * @throws JinjaSyntaxError
 */
function readIf(parser: StatementParserContext, stream: TokenStream, line: number): Statement {
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

/**
 * Parses `with`.
 * @throws JinjaSyntaxError
 */
function readWith(parser: StatementParserContext, stream: TokenStream, line: number): Statement {
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

/**
 * Parses `autoescape false`.
 * @throws JinjaSyntaxError
 */
function readAutoescape(
  parser: StatementParserContext,
  stream: TokenStream,
  line: number,
): Statement {
  const value = parseExpression(stream);
  if (value.kind !== 'const' || value.value !== false) {
    stream.fail('autoescape can only be disabled', line, 'Unsupported');
  }
  return { kind: 'scope', line, body: parser.block('endautoescape'), scope: new Scope() };
}

/**
 * Parses `print`.
 * @throws JinjaSyntaxError
 */
function readPrint(_parser: StatementParserContext, stream: TokenStream, line: number): Statement {
  const items: Expression[] = [];
  while (!stream.at('block_end')) {
    if (items.length > 0) stream.expect(',');
    items.push(parseExpression(stream));
  }
  return { kind: 'output', line, items };
}

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

/** Properties of a macro that the analysis sets later. */
const macroParts = { takesCaller: false, takesKwargs: false, takesVarargs: false };

/**
 * Parses `macro`.
 * @throws JinjaSyntaxError
 */
function readMacro(parser: StatementParserContext, stream: TokenStream, line: number): Statement {
  const { name } = parseTargetName(stream, 'store');
  const signature = readSignature(stream);
  const body = parser.block('endmacro');
  return { kind: 'macro', line, name, ...signature, ...macroParts, body, scope: new Scope() };
}

/**
 * Parses `call`.
 * @throws JinjaSyntaxError
 */
function readCallBlock(
  parser: StatementParserContext,
  stream: TokenStream,
  line: number,
): Statement {
  const signature = stream.at('(') ? readSignature(stream) : { parameters: [], defaults: [] };
  const call = parseExpression(stream);
  if (call.kind !== 'call') stream.fail('expected call', line);
  const body = parser.block('endcall');
  return { kind: 'callBlock', line, call, ...signature, ...macroParts, body, scope: new Scope() };
}

/**
 * Parses `filter`.
 * @throws JinjaSyntaxError
 */
function readFilterBlock(
  parser: StatementParserContext,
  stream: TokenStream,
  line: number,
): Statement {
  const filter = parseBlockFilters(stream);
  return { kind: 'filterBlock', line, filter, body: parser.block('endfilter'), scope: new Scope() };
}

/**
 * Parses `block`.
 * @throws JinjaSyntaxError
 */
function readBlock(parser: StatementParserContext, stream: TokenStream, line: number): Statement {
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

/**
 * Parses `include`.
 * @throws JinjaSyntaxError
 */
function readInclude(
  _parser: StatementParserContext,
  stream: TokenStream,
  line: number,
): Statement {
  const template = parseExpression(stream);
  const ignoreMissing = stream.atName('ignore') && isWord(stream, 'missing');
  if (ignoreMissing) {
    stream.next();
    stream.next();
  }
  const withContext = takeContext(stream, true);
  return { kind: 'include', line, template, ignoreMissing, withContext };
}

/**
 * Parses `import … as`.
 * @throws JinjaSyntaxError
 */
function readImport(
  _parser: StatementParserContext,
  stream: TokenStream,
  line: number,
): Statement & { readonly kind: 'import' } {
  const template = parseExpression(stream);
  stream.expectName('as');
  const target = parseTargetName(stream, 'store').name;
  return { kind: 'import', line, template, target, withContext: takeContext(stream, false) };
}

/**
 * Parses `from … import`.
 * @throws JinjaSyntaxError
 */
function readFrom(_parser: StatementParserContext, stream: TokenStream, line: number): Statement {
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

/**
 * Parses Salt's `{% load_yaml as x %}`: creates an anonymous macro whose output is parsed as data.
 */
function readLoad(format: string): StatementReader {
  return (parser, stream, line) => {
    stream.expectName('as');
    const target = parseTarget(stream, 'store');
    const name = parser.hiddenName();
    const body = parser.block('endload');
    return [
      {
        kind: 'macro',
        line,
        name,
        parameters: [],
        defaults: [],
        ...macroParts,
        body,
        scope: new Scope(),
      },
      {
        kind: 'assign',
        line,
        target,
        value: filtered(call({ kind: 'name', line, name, use: 'load' }), `load_${format}`),
      },
    ];
  };
}

/**
 * Parses Salt's `{% import_yaml 'file' as x %}`: imports a module whose output is parsed as data.
 */
function readDataImport(format: string): StatementReader {
  return (parser, stream, line) => {
    const node = readImport(parser, stream, line);
    const name = node.target;
    return [
      node,
      {
        kind: 'assign',
        line,
        target: { kind: 'name', line, name, use: 'store' },
        value: filtered({ kind: 'name', line, name, use: 'load' }, `load_${format}`),
      },
    ];
  };
}

const nothing = {
  positional: [],
  named: [],
  morePositional: undefined,
  moreNamed: undefined,
} as const;

function call(target: Expression): Expression {
  return { kind: 'call', line: target.line, target, ...nothing };
}

function filtered(target: Expression, name: string): Expression {
  return { kind: 'filter', line: target.line, target, name, ...nothing };
}

/** Parses Salt's `{% profile as 'label' %}`. The body is rendered, but nothing is measured. */
function readProfile(
  parser: StatementParserContext,
  stream: TokenStream,
  line: number,
): Statement[] {
  stream.expectName('as');
  const value = parseExpression(stream);
  return [{ kind: 'do', line, value }, ...parser.block('endprofile')];
}

/**
 * Parses a whole template.
 * @throws JinjaSyntaxError
 */
export function parseStatements(stream: TokenStream): Statement[] {
  return new StatementParser(stream).body(undefined);
}

class StatementParser implements StatementParserContext {
  readonly #stream: TokenStream;
  readonly #tags: string[] = [];
  readonly #ends: (readonly string[])[] = [];
  #hidden = 0;

  constructor(stream: TokenStream) {
    this.#stream = stream;
  }

  /** Parses statements until one of the given end words. The end word is then the current token. */
  body(ends: readonly string[] | undefined): Statement[] {
    const stream = this.#stream;
    const statements: Statement[] = [];
    let items: (DataNode | Expression)[] = [];
    const flush = (): void => {
      const [first] = items;
      if (first !== undefined) statements.push({ kind: 'output', line: first.line, items });
      items = [];
    };
    if (ends !== undefined) this.#ends.push(ends);
    while (!stream.at('eof')) {
      if (stream.at('data')) {
        const { text, line } = stream.next();
        items.push({ kind: 'data', line, text });
      } else if (stream.skipIf('variable_begin')) {
        items.push(parseTuple(stream));
        stream.expect('variable_end');
      } else {
        flush();
        stream.expect('block_begin');
        if (ends !== undefined && stream.atName(...ends)) break;
        statements.push(...stream.nested(() => this.#statement()));
        stream.expect('block_end');
      }
    }
    flush();
    if (ends !== undefined) this.#ends.pop();
    return statements;
  }

  #statement(): Statement[] {
    const stream = this.#stream;
    const { type, text, line } = stream.current;
    if (type !== 'name') stream.fail('tag name expected', line);
    const read = readers.get(text);
    if (read === undefined) this.#failUnknown(text, line);
    this.#tags.push(text);
    stream.next();
    const statements = read(this, stream, line);
    this.#tags.pop();
    return Array.isArray(statements) ? statements : [statements];
  }

  block(end: string): Statement[] {
    const body = this.open([end]);
    this.#stream.next();
    return body;
  }

  open(ends: readonly string[]): Statement[] {
    const stream = this.#stream;
    stream.skipIf(':');
    stream.expect('block_end');
    const body = this.body(ends);
    if (stream.at('eof')) this.#failEnd(undefined, [...this.#ends, ends], stream.current.line);
    return body;
  }

  hiddenName(): string {
    this.#hidden += 1;
    return `\0${this.#hidden}`;
  }

  #failUnknown(name: string, line: number): never {
    return this.#failEnd(name, this.#ends, line);
  }

  #failEnd(name: string | undefined, ends: readonly (readonly string[])[], line: number): never {
    const words = [
      name === undefined
        ? 'Unexpected end of template.'
        : `Encountered unknown tag ${textRepr(name)}.`,
    ];
    const looking = ends.at(-1)?.map(textRepr).join(' or ');
    if (looking !== undefined && name !== undefined && ends.flat().includes(name)) {
      words.push(
        `You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for ${looking}.`,
      );
    } else if (looking !== undefined) {
      words.push(`Jinja was looking for the following tags: ${looking}.`);
    }
    const innermost = this.#tags.at(-1);
    if (innermost !== undefined) {
      words.push(`The innermost block that needs to be closed is ${textRepr(innermost)}.`);
    }
    return this.#stream.fail(words.join(' '), line);
  }
}

const readers: ReadonlyMap<string, StatementReader> = new Map<string, StatementReader>([
  ['set', readSet],
  ['for', readFor],
  ['if', readIf],
  ['with', readWith],
  ['autoescape', readAutoescape],
  ['block', readBlock],
  ['extends', (_p, stream, line) => ({ kind: 'extends', line, template: parseExpression(stream) })],
  ['include', readInclude],
  ['import', readImport],
  ['from', readFrom],
  ['macro', readMacro],
  ['call', readCallBlock],
  ['filter', readFilterBlock],
  ['print', readPrint],
  ['do', (_p, stream, line) => ({ kind: 'do', line, value: parseTuple(stream) })],
  ['break', (_p, _s, line) => ({ kind: 'break', line })],
  ['continue', (_p, _s, line) => ({ kind: 'continue', line })],
  ['load_yaml', readLoad('yaml')],
  ['load_json', readLoad('json')],
  ['load_text', readLoad('text')],
  ['import_yaml', readDataImport('yaml')],
  ['import_json', readDataImport('json')],
  ['import_text', readDataImport('text')],
  ['profile', readProfile],
]);

/** Methods of the parser that the readers of single statements use. */
interface StatementParserContext {
  /** Parses the body of a block and its end tag. */
  block(end: string): Statement[];
  /** Parses the body of a block up to one of the end words. */
  open(ends: readonly string[]): Statement[];
  /** Returns a new variable name that no template can contain. */
  hiddenName(): string;
}

/**
 * Parses one statement. The name of the statement has already been read.
 * @throws JinjaSyntaxError
 */
type StatementReader = (
  parser: StatementParserContext,
  stream: TokenStream,
  line: number,
) => Statement | Statement[];
