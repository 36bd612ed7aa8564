/** Opens the sources of the option `ext_pillar`. */

import {
  type ExtPillarEntry,
  type GitPillarEntry,
  type UnservedPillarEntry,
  unservedReason,
} from '#config';
import { type ExtPillar, MasterError } from '#master';
import { type ExtPillarLayer, layerOf } from './ext-pillar.ts';
import { openExtPillarFiles } from './ext-pillar-files.ts';
import { openExtPillarHttp } from './ext-pillar-http.ts';
import type { TextReader } from './pillar-text.ts';

/** Function that opens the git repositories of a `git` entry in the option `ext_pillar`. */
type GitPillarOpener = (entry: GitPillarEntry) => Promise<readonly ExtPillarLayer[]>;

/** Dependencies for opening the sources. */
export interface ExtPillarOpening {
  readonly reader: TextReader;
  readonly openGit: GitPillarOpener;
  /** Modules that `left_out_ext_pillar` excludes. */
  readonly leftOut: readonly string[];
}

/** Opens the sources in configured order. Each source has the name of its module. */
export async function openExtPillars(
  entries: readonly ExtPillarEntry[],
  { reader, openGit, leftOut }: ExtPillarOpening,
): Promise<ExtPillarLayer[]> {
  const layers = await Promise.all(
    entries.map(async (entry) => {
      if (entry.module === 'git') return openGit(entry);
      if (entry.module === 'unserved') return leftOut.includes(entry.name) ? [] : [refusal(entry)];
      const source = await openEntry(entry, reader);
      return [{ ...layerOf(source), name: entry.module }];
    }),
  );
  return layers.flat();
}

/**
 * Returns a source that always fails, so that no minion applies states with an incomplete pillar.
 */
function refusal({ name }: UnservedPillarEntry): ExtPillarLayer {
  const message =
    `ext_pillar: ${name} ${unservedReason(name)}. State runs are blocked until the module is removed ` +
    'from ext_pillar or listed in left_out_ext_pillar below saltbridge; see docs/pillar.md';
  return {
    name,
    answer: async () => {
      throw new MasterError('ERR_NOT_SERVED', message);
    },
  };
}

/** Opens a source that is not a git repository. */
export async function openEntry(
  entry: Exclude<ExtPillarEntry, GitPillarEntry | UnservedPillarEntry>,
  reader: TextReader,
): Promise<ExtPillar> {
  if (entry.module === 'minion_files') return openExtPillarFiles(entry, reader);
  const { timeout = 10, allowPlainHttp = false, ...options } = entry;
  return openExtPillarHttp(
    { ...options, timeoutMs: timeout * 1000, allowsPlainHttp: allowPlainHttp },
    reader,
  );
}
