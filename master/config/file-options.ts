/** How the options of the file server and of states are checked, where they are more than a word. */
import { compileSearchPattern, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import { flag, type OptionKind, textList } from './option-kinds.ts';
import { entriesOf } from './plain-data.ts';

/** Directories by environment. */
export type FileRoots = Readonly<Record<string, readonly string[]>>;

/** Absolute paths by environment; an environment without any is one with nothing in it. */
export const fileRoots: OptionKind<FileRoots> = {
  expected: 'a map of environments to lists of absolute paths',
  isPath: false,
  parse: (value) => {
    const entries = entriesOf(value);
    if (entries === undefined) return undefined;
    const roots: [string, readonly string[]][] = [];
    for (const [env, places] of entries) {
      const list = textList.parse(places);
      if (!list?.every((place) => place.startsWith('/'))) return undefined;
      roots.push([env, list]);
    }
    return Object.fromEntries(roots);
  },
};

/** Regular expressions with Python's meaning. */
export const patternList: OptionKind<readonly string[]> = {
  expected: 'a regular expression or a list of them, each of which can be read',
  isPath: false,
  parse: (value) => {
    const list = textList.parse(value);
    return list?.every(isPattern) ? list : undefined;
  },
};

/** Whatever a file can say, for minions to make sense of. */
export const plainMap: OptionKind<WireMap> = {
  expected: 'a map',
  isPath: false,
  parse: (value) => {
    const entries = entriesOf(value);
    return entries && Object.fromEntries(entries.map(([key, inner]) => [key, plain(inner)]));
  },
};

/** True, false, or names of state modules. */
export const flagOrNames: OptionKind<boolean | readonly string[]> = {
  expected: 'true, false, or a list of names',
  isPath: false,
  parse: (value) => flag.parse(value) ?? (Array.isArray(value) ? textList.parse(value) : undefined),
};

function isPattern(pattern: string): boolean {
  try {
    compileSearchPattern(pattern);
    return true;
  } catch {
    return false;
  }
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
