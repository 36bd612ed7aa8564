/** The sources of the option `ext_pillar`. */
import type { ExtPillarEntry } from '../config/ext-pillar-entries.ts';
import { extPillarFiles } from './ext-files.ts';
import { extPillarHttp } from './ext-http.ts';
import type { ExtPillar } from './ext-pillar.ts';

/** Opens them in their order; each has the name of its module. */
export function openExtPillars(entries: readonly ExtPillarEntry[]): Promise<ExtPillar[]> {
  return Promise.all(
    entries.map(async (entry) => {
      const source = await openEntry(entry);
      return { name: entry.module, provide: (request) => source.provide(request) };
    }),
  );
}

async function openEntry(entry: ExtPillarEntry): Promise<ExtPillar> {
  if (entry.module === 'minion_files') return extPillarFiles(entry);
  const { timeout = 10, allowPlainHttp = false, ...options } = entry;
  return extPillarHttp({
    ...options,
    timeoutMs: timeout * 1000,
    allowsPlainHttp: allowPlainHttp,
  });
}
