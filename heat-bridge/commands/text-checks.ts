/** Checks of texts, so that nothing interprets them as anything but text. */

import { isPlainYamlText } from '#master';
import { findInterpretedText } from '#minion-protocol';
import { isPlainMap } from './command-definition.ts';
import { isAnnotated, schemaOfMember } from './text-annotations.ts';

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
const invisibleCharacters = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;

const lineBreaks = /[\n\t]/g;

/** What minions look for in maps of arguments [salt.minion load_args_and_kwargs]. */
const keywordMarker = /^__/;

const maxNesting = 16;

/** Begins with what YAML reads as something else, or has in it what ends a plain text. */
const notPlainYaml = /^[\s\-?:,[\]{}#&*!|>'"%@`]|: |\s#|:$|\s$|[{}[\]\n\t]/;

/** Looks at every text in a value, by its schema; `undefined`: nothing is wrong. */
export function findTextProblem(
  value: unknown,
  schema: unknown,
  use: TextUse,
  path = '',
): TextProblem | undefined {
  if (path.split('/').length > maxNesting) return { path, expected: 'must not be nested so deep' };
  if (typeof value === 'string') {
    const expected = problemOfText(value, schema, use);
    return expected === undefined ? undefined : { path, expected };
  }
  if (Array.isArray(value)) {
    return firstResult(value.entries(), (index, one) =>
      findTextProblem(one, schemaOfMember(schema, index), use, joinPath(path, index)),
    );
  }
  if (!isPlainMap(value)) return undefined;
  return firstResult(Object.entries(value), (key, one) => {
    if (
      keywordMarker.test(key) ||
      invisibleCharacters.test(key) ||
      findInterpretedText(key) !== undefined ||
      (use.isRendered && !isPlain(key))
    ) {
      return { path: joinPath(path, '…'), expected: 'must have another key' };
    }
    return findTextProblem(one, schemaOfMember(schema, key), use, joinPath(path, key));
  });
}

function problemOfText(text: string, schema: unknown, { isRendered }: TextUse): string | undefined {
  if (/^\s*-/.test(text) && !isAnnotated(schema, 'x-allow-leading-dash'))
    return 'must not begin with -';
  const shown = isAnnotated(schema, 'x-allow-newlines') ? text.replace(lineBreaks, '') : text;
  if (invisibleCharacters.test(shown))
    return 'must have no line breaks, control or invisible characters';
  const interpreted = findInterpretedText(text);
  if (interpreted !== undefined && !isAnnotated(schema, 'x-allow-salt-syntax'))
    return interpreted.expected;
  if (isRendered && !isPlain(text) && !isAnnotated(schema, 'x-quoted-by-template'))
    return 'must be plain text to YAML';
  return undefined;
}

function isPlain(text: string): boolean {
  return isPlainYamlText(text) && !notPlainYaml.test(text);
}

function joinPath(path: string, key: string | number): string {
  return path === '' ? String(key) : `${path}/${key}`;
}

function firstResult<K, V, R>(
  entries: Iterable<readonly [K, V]>,
  find: (key: K, value: V) => R | undefined,
): R | undefined {
  for (const [key, value] of entries) {
    const found = find(key, value);
    if (found !== undefined) return found;
  }
  return undefined;
}
