/** Statements [jinja2/parser.py, jinja2/ext.py, salt/utils/jinja.py]. */
import type { DataNode, Expression, Statement } from './ast.ts';
import { parseExpression, parseTuple } from './parse-expression.ts';
import { readAutoescape, readFor, readIf, readPrint, readSet, readWith } from './read-flow.ts';
import { readCallBlock, readFilterBlock, readMacro } from './read-macros.ts';
import { readDataImport, readLoad, readProfile } from './read-salt.ts';
import { readBlock, readFrom, readImport, readInclude } from './read-templates.ts';
import type { Reader, StatementBody } from './statement-reader.ts';
import type { TokenStream } from './token-stream.ts';
import { quoted } from './tokens.ts';

/** Reads a whole template. @throws SyntaxProblem */
export function parseStatements(stream: TokenStream): Statement[] {
  return new StatementParser(stream).body(undefined);
}

class StatementParser implements StatementBody {
  readonly #stream: TokenStream;
  readonly #tags: string[] = [];
  readonly #ends: (readonly string[])[] = [];
  #hidden = 0;

  constructor(stream: TokenStream) {
    this.#stream = stream;
  }

  /** Up to one of the words, which stays the current token. */
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
        : `Encountered unknown tag ${quoted(name)}.`,
    ];
    const looking = ends.at(-1)?.map(quoted).join(' or ');
    if (looking !== undefined && name !== undefined && ends.flat().includes(name)) {
      words.push(
        `You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for ${looking}.`,
      );
    } else if (looking !== undefined) {
      words.push(`Jinja was looking for the following tags: ${looking}.`);
    }
    const innermost = this.#tags.at(-1);
    if (innermost !== undefined) {
      words.push(`The innermost block that needs to be closed is ${quoted(innermost)}.`);
    }
    return this.#stream.fail(words.join(' '), line);
  }
}

const readers: ReadonlyMap<string, Reader> = new Map<string, Reader>([
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
