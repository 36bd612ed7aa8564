/** What texts of a caller may have in them, so that nobody reads them as anything but text. */
import { isPlainYamlText } from '../../master/index.ts';
import { isAnnotated, schemaOfMember } from './annotations.ts';
import { isMap } from './definition.ts';

/** Where a text goes. */
export interface TextUse {
  /** Into a state file, which is rendered and then read as YAML. */
  readonly isRendered: boolean;
}

/** A text that is refused. */
export interface TextProblem {
  /** Keys with `/` between them. */
  readonly path: string;
  readonly expected: string;
}

/** Control characters, marks that cannot be seen, halves of characters, other line ends. */
// protection: invisible-texts
const hidden = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;
const line = /[\n\t]/g;
/** What minions look for in maps of arguments [salt.minion load_args_and_kwargs]. */
// protection: maps-of-keywords
const markOfKeywords = /^__/;
const maxDepth = 16;

/** Begins with what YAML reads as something else, or has in it what ends a plain text. */
const notPlain = /^[\s\-?:,[\]{}#&*!|>'"%@`]|: |\s#|:$|\s$|[{}[\]\n\t]/;

/** Looks at every text in a value, by its schema; `undefined`: nothing is wrong. */
export function findTextProblem(
  value: unknown,
  schema: unknown,
  use: TextUse,
  path = '',
): TextProblem | undefined {
  if (path.split('/').length > maxDepth) return { path, expected: 'must not be nested so deep' };
  if (typeof value === 'string') {
    const expected = problemOfText(value, schema, use);
    return expected === undefined ? undefined : { path, expected };
  }
  if (Array.isArray(value)) {
    return firstOf(value.entries(), (index, one) =>
      findTextProblem(one, schemaOfMember(schema, index), use, join(path, index)),
    );
  }
  if (!isMap(value)) return undefined;
  return firstOf(Object.entries(value), (key, one) => {
    if (markOfKeywords.test(key) || hidden.test(key) || (use.isRendered && !isPlain(key))) {
      return { path: join(path, '…'), expected: 'must have another key' };
    }
    return findTextProblem(one, schemaOfMember(schema, key), use, join(path, key));
  });
}

function problemOfText(text: string, schema: unknown, { isRendered }: TextUse): string | undefined {
  // protection: options-as-texts
  if (/^\s*-/.test(text) && !isAnnotated(schema, 'x-dash')) return 'must not begin with -';
  const shown = isAnnotated(schema, 'x-lines') ? text.replace(line, '') : text;
  if (hidden.test(shown)) return 'must have no line breaks, control or invisible characters';
  if (isRendered && !isPlain(text) && !isAnnotated(schema, 'x-quoted'))
    return 'must be plain text to YAML';
  return undefined;
}

function isPlain(text: string): boolean {
  return isPlainYamlText(text) && !notPlain.test(text);
}

function join(path: string, key: string | number): string {
  return path === '' ? String(key) : `${path}/${key}`;
}

function firstOf<K, V, R>(
  entries: Iterable<readonly [K, V]>,
  find: (key: K, value: V) => R | undefined,
): R | undefined {
  for (const [key, value] of entries) {
    const found = find(key, value);
    if (found !== undefined) return found;
  }
  return undefined;
}
