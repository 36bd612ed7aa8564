/** The sources of the option `ext_pillar`. */
import type { ExtPillarEntry } from '../config/ext-pillar-entries.ts';
import { openExtPillarFiles } from './ext-files.ts';
import { openExtPillarHttp } from './ext-http.ts';
import type { ExtPillar } from './ext-pillar.ts';
import type { TextReader } from './ext-text.ts';

/** Opens them in their order; each has the name of its module. */
export function openExtPillars(
  entries: readonly ExtPillarEntry[],
  reader: TextReader,
): Promise<ExtPillar[]> {
  return Promise.all(
    entries.map(async (entry) => {
      const source = await openEntry(entry, reader);
      return { name: entry.module, provide: (request) => source.provide(request) };
    }),
  );
}

async function openEntry(entry: ExtPillarEntry, reader: TextReader): Promise<ExtPillar> {
  if (entry.module === 'minion_files') return openExtPillarFiles(entry, reader);
  const { timeout = 10, allowPlainHttp = false, ...options } = entry;
  return openExtPillarHttp(
    { ...options, timeoutMs: timeout * 1000, allowsPlainHttp: allowPlainHttp },
    reader,
  );
}
