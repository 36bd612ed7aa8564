import { TemplateError, type TemplateErrorCode } from '../errors.ts';
import { filters, tests } from '../filters/index.ts';
import { LimitExceeded, PythonException, UnsupportedFeature } from '../python/exceptions.ts';
import { analyseTemplate } from './analysis.ts';
import type { BlockNode, Statement } from './ast.ts';
import { TokenStream, tokenize, type WhitespaceOptions } from './lexer.ts';
import { parseStatements } from './parse-statement.ts';
import type { Scope } from './scope.ts';
import { JinjaSyntaxError } from './string-literal.ts';

/** Options for parsing a template. */
export interface ParseOptions extends WhitespaceOptions {
  /** Name of the template in errors and value of `tplfile`, for example `web/init.sls`. */
  readonly name: string;
}

/** A parsed template. It is immutable and can be rendered any number of times. */
export interface Template {
  readonly name: string;
  readonly body: readonly Statement[];
  readonly scope: Scope;
  readonly blocks: ReadonlyMap<string, BlockNode>;
  readonly hasExtends: boolean;
  readonly usesSelf: boolean;
  /** Line break at the end of the source, or empty. Salt appends it to the rendered text. */
  readonly newline: string;
}

/**
 * Parses a template.
 * @throws TemplateError ERR_TEMPLATE_SYNTAX, ERR_TEMPLATE_UNSUPPORTED
 */
export function parseTemplate(source: string, options: ParseOptions): Template {
  const { name } = options;
  try {
    const body = parseStatements(new TokenStream(tokenize(source, options)));
    const newline = source.endsWith('\n') ? '\n' : '';
    return { name, body, newline, ...analyseTemplate(body, { filters, tests }) };
  } catch (error) {
    if (!(error instanceof JinjaSyntaxError)) throw asTemplateError(error, { file: name, line: 1 });
    const place = { file: name, line: error.line };
    const code = error.kind === 'Unsupported' ? 'ERR_TEMPLATE_UNSUPPORTED' : 'ERR_TEMPLATE_SYNTAX';
    throw new TemplateError(code, { place, kind: error.kind, detail: error.message, cause: error });
  }
}

const codes: ReadonlyMap<string, TemplateErrorCode> = new Map([
  ['UndefinedError', 'ERR_TEMPLATE_UNDEFINED'],
  ['TemplateNotFound', 'ERR_TEMPLATE_NOT_FOUND'],
  ['TemplatesNotFound', 'ERR_TEMPLATE_NOT_FOUND'],
  ['SaltFunctionError', 'ERR_TEMPLATE_FUNCTION'],
]);

/** Converts an error of the interpreter to a `TemplateError`. Returns other errors unchanged. */
export function asTemplateError(
  error: unknown,
  place: { readonly file: string; readonly line: number },
): unknown {
  if (error instanceof PythonException) {
    const { kind, message } = error;
    const code = codes.get(kind) ?? 'ERR_TEMPLATE_RUNTIME';
    return new TemplateError(code, { place, kind, detail: message, cause: error });
  }
  if (error instanceof LimitExceeded) return limitError(error.message, error.kind, place, error);
  // The JavaScript stack overflowed before the limit of the depth was reached.
  if (error instanceof RangeError)
    return limitError('the template is nested too deeply', 'RecursionError', place, error);
  if (error instanceof UnsupportedFeature) {
    return new TemplateError('ERR_TEMPLATE_UNSUPPORTED', {
      place,
      kind: 'Unsupported',
      detail: error.message,
      cause: error,
    });
  }
  return error;
}

function limitError(
  detail: string,
  kind: string,
  place: { readonly file: string; readonly line: number },
  cause: unknown,
): TemplateError {
  return new TemplateError('ERR_TEMPLATE_LIMIT', { place, kind, detail, cause });
}
