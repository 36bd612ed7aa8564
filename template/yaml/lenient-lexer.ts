import { Lexer } from 'yaml';

/**
 * The `yaml` package's lexer, for which indentation means nothing inside brackets and quotes, as
 * for PyYAML: what Salt's filter `yaml` writes is broken after 80 characters, and stands in a file
 * at whatever depth. The package has no option for that, so what it asks meanwhile is set here.
 */
export function createLenientLexer(): Lexer {
  const lexer = new Lexer();
  for (const method of ['parseFlowCollection', 'parseQuotedScalar']) ignoreIndent(lexer, method);
  return lexer;
}

function ignoreIndent(lexer: Lexer, method: string): void {
  const parse: unknown = Reflect.get(lexer, method);
  if (typeof parse !== 'function') throw new TypeError(`the lexer has no ${method}`);
  Reflect.set(lexer, method, function* lenient(): Generator<unknown, unknown> {
    const least: unknown = Reflect.get(lexer, 'indentNext');
    Reflect.set(lexer, 'indentNext', 0);
    const next: unknown = yield* parse.call(lexer);
    Reflect.set(lexer, 'indentNext', least);
    return next;
  });
}
