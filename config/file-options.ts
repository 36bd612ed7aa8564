/** Schemas of the options of the file server, of states and of targets. */

import {
  compileSearchPattern,
  type Nodegroups,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { absolutePath, custom, list, mapOf, parseValue, text, textList } from './schema.ts';
import { entriesOf } from './settings.ts';

/**
 * Schema of `file_roots` and `pillar_roots`: a map of environments to absolute paths. An
 * environment without a value has no paths.
 */
export const fileRoots = mapOf(list(absolutePath(), { expected: 'a list of absolute paths' }), {
  expected: 'a map of environments to lists of absolute paths',
  takesNull: true,
});

/** Schema of a list of regular expressions in Python's syntax. */
export const patternList = list(
  text({
    expected: 'a valid regular expression',
    accept: (value) => {
      const pattern = typeof value === 'number' ? String(value) : value;
      return typeof pattern === 'string' && isPattern(pattern) ? pattern : undefined;
    },
  }),
  { expected: 'a valid regular expression or a list of them' },
);

function isPattern(pattern: string): boolean {
  try {
    compileSearchPattern(pattern);
    return true;
  } catch {
    return false;
  }
}

/** Schema of a map with any values. */
export const plainMap = custom<WireMap>(
  { expected: 'a map', accept: readPlainMap },
  { type: 'object' },
);

/** Schema of the section `bridge`. The bridge validates the section with its own schemas. */
export const bridgeMap = custom<Readonly<Record<string, unknown>>>(
  { expected: 'a map', accept: readPlainMap },
  { type: 'object' },
);

function readPlainMap(value: unknown): WireMap | undefined {
  const entries = entriesOf(value);
  return entries && Object.fromEntries(entries.map(([key, inner]) => [key, plain(inner)]));
}

function plain(value: unknown): WireValue {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return value;
  }
  if (Array.isArray(value)) return value.map(plain);
  const entries = entriesOf(value);
  return entries === undefined
    ? null
    : Object.fromEntries(entries.map(([key, inner]) => [key, plain(inner)]));
}

/** Schema of an option that is true, false, or a list of state modules. */
export const flagOrNames = custom<boolean | readonly string[]>(
  {
    expected: 'true, false, or a list of names',
    accept: (value) =>
      typeof value === 'boolean'
        ? value
        : Array.isArray(value)
          ? parseValue(textList(), value)
          : undefined,
  },
  { type: ['boolean', 'array'] },
);

/**
 * Schema of nodegroups: a map of names to compound expressions. An expression is a text or a list
 * of words.
 */
export const nodegroups = mapOf(
  custom<Nodegroups[string]>(
    { expected: 'an expression as text or as a list of words', accept: definitionOf },
    { type: ['string', 'array'] },
  ),
  {
    expected: 'a map of names to expressions, each as text or as a list of words',
    takesNull: true,
  },
);

function definitionOf(value: unknown): string | readonly string[] | undefined {
  if (typeof value === 'string') return value;
  const isList =
    Array.isArray(value) &&
    value.every((word) => typeof word === 'string' || typeof word === 'number');
  return isList ? value.map(String) : undefined;
}
