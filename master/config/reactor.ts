/** Salt's option `reactor`: files that say what follows from events, by globs on tags. */
import path from 'node:path';
import type { OptionKind } from './option-kinds.ts';
import { toPlain } from './plain-data.ts';

/** What follows from events of some tags. */
export interface ReactorEntry {
  /** A glob on tags. */
  readonly tag: string;
  /** Files: `salt://…`, or absolute paths, which may have globs. */
  readonly sls: readonly string[];
}

/** As in Salt: a list of maps with one tag each. */
export const reactor: OptionKind<readonly ReactorEntry[]> = {
  expected:
    'a list of maps, each with one tag and its files (salt://…, or absolute paths) as a list',
  isPath: false,
  parse: (value) => {
    const plain = toPlain(value);
    if (!Array.isArray(plain)) return undefined;
    const entries = plain.map(entryOf).filter((entry) => entry !== undefined);
    return entries.length === plain.length ? entries : undefined;
  },
};

/** From a file, or from a program. */
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
