/** Salt's option `reactor`: reactor files, which run when the tag of an event matches a glob. */

import path from 'node:path';
import { custom, list, parseValue, refusals, textWhere } from './schema.ts';
import { settingsOf, toPlain } from './settings.ts';

/** Reactor files for one tag glob. */
export interface ReactorEntry {
  /** Glob on tags. */
  readonly tag: string;
  /** Files: `salt://…`, or absolute paths, which may contain globs. */
  readonly sls: readonly string[];
}

const reference = textWhere(isReference, 'a file: salt://…, or an absolute path');

const reactorEntry = custom<ReactorEntry>({
  expected: 'a map of one tag to a list of its files',
  accept: (value) => entryOf(toPlain(value)),
  explain: (item) => {
    const [files, ...others] = settingsOf(item);
    if (files === undefined || files[0] === '' || others.length > 0) return [];
    return Array.isArray(files[1].value)
      ? refusals(list(reference), files[1])
      : refusals(reference, files[1]);
  },
});

/** Schema of `reactor`: a list of maps with one tag each, as in Salt. */
export const reactor = list(reactorEntry, {
  takesOne: false,
  expected: 'a list of maps, each of one tag to a list of its files (salt://…, or absolute paths)',
});

/** Returns the entries of a `reactor` option, or `undefined` if the value is invalid. */
export function readReactorEntries(value: unknown): readonly ReactorEntry[] | undefined {
  return parseValue(reactor, value);
}

/** Reads an entry from a file or from a program. */
function entryOf(item: unknown): ReactorEntry | undefined {
  if (typeof item !== 'object' || item === null || Array.isArray(item)) return undefined;
  if ('tag' in item && 'sls' in item && Array.isArray(item.sls)) {
    return entry(String(item.tag), item.sls);
  }
  const [[tag, files] = ['', undefined], ...others] = Object.entries(item);
  return others.length > 0 ? undefined : entry(tag, files ?? []);
}

function entry(tag: string, files: unknown): ReactorEntry | undefined {
  const sls = [files].flat();
  const isComplete = tag !== '' && sls.every(isReference);
  return isComplete ? { tag, sls } : undefined;
}

function isReference(file: unknown): file is string {
  if (typeof file !== 'string' || /\p{C}/u.test(file)) return false;
  return path.isAbsolute(file) || /^salt:\/\/[^/]/.test(file);
}
