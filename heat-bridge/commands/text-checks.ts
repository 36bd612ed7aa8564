/** Rejects texts that a program could interpret as something else than text. */

import { isPlainYamlText } from '#master';
import { findInterpretedText } from '#minion-protocol';
import { isPlainMap } from './command-definition.ts';
import { isAnnotated, schemaOfMember } from './text-annotations.ts';

/** Properties of a command that determine which texts in its parameters are rejected. */
export interface TextUse {
  /**
   * Whether texts are inserted into a state file, which is rendered as a template and then parsed
   * as YAML.
   */
  readonly isRendered: boolean;
}

/** Reason to reject a text. */
export interface TextProblem {
  /** Path of keys to the text, separated by `/`. */
  readonly path: string;
  readonly expected: string;
}

/** Control, invisible and private-use characters, lone surrogates, and line separators. */
const invisibleCharacters = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;

const lineBreaks = /[\n\t]/g;

/**
 * Prefix of the special keys in a map that is passed as an argument, for example `__kwarg__`.
 * Salt's minion interprets these keys [salt.minion load_args_and_kwargs].
 */
const keywordMarker = /^__/;

const maxNesting = 16;

/** Pattern for text that YAML does not parse as a plain string. */
const notPlainYaml = /^[\s\-?:,[\]{}#&*!|>'"%@`]|: |\s#|:$|\s$|[{}[\]\n\t]/;

/**
 * Checks all texts in a value by the annotations of their schemas, such as `x-allow-newlines`.
 * Returns the first problem, or `undefined` if all texts are valid.
 */
export function findTextProblem(
  value: unknown,
  schema: unknown,
  use: TextUse,
  path = '',
): TextProblem | undefined {
  if (path.split('/').length > maxNesting)
    return { path, expected: `must have at most ${maxNesting} levels` };
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
      return {
        path: joinPath(path, '…'),
        expected: 'has a key that is not plain text; rename the key',
      };
    }
    return findTextProblem(one, schemaOfMember(schema, key), use, joinPath(path, key));
  });
}

function problemOfText(text: string, schema: unknown, { isRendered }: TextUse): string | undefined {
  if (/^\s*-/.test(text) && !isAnnotated(schema, 'x-allow-leading-dash'))
    return 'must not begin with -';
  const shown = isAnnotated(schema, 'x-allow-newlines') ? text.replace(lineBreaks, '') : text;
  if (invisibleCharacters.test(shown))
    return 'must not contain line breaks, control characters or invisible characters';
  const interpreted = findInterpretedText(text);
  if (interpreted !== undefined && !isAnnotated(schema, 'x-allow-salt-syntax'))
    return interpreted.expected;
  if (isRendered && !isPlain(text) && !isAnnotated(schema, 'x-quoted-by-template'))
    return 'must be text that YAML reads as a plain string';
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
