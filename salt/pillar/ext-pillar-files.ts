/** External pillar from a directory of JSON files. */

import { type ExtPillar, MasterError } from '#master';
import type { FactMap } from '#minion-protocol';
import { DiskFiles, HiddenDirectories } from '../file-trees/disk-files.ts';
import { readAtOnce, readPillarText, type TextReader } from './pillar-text.ts';

/** A directory with a file for each minion. */
export interface ExtPillarFilesOptions {
  /** Absolute. In it `<id>.json`, `<id>.yaml` or `<id>.yml`; the first that is there counts. */
  readonly directory: string;
  /** Largest file, bytes. Default 4 MiB. */
  readonly maxBytes?: number;
}

/**
 * Pillar of files, one for each minion. They are data: nothing in them is rendered. A minion
 * without a file gets nothing from it, and links that leave the directory lead nowhere.
 */
export function extPillarFiles(options: ExtPillarFilesOptions): Promise<ExtPillar> {
  return openExtPillarFiles(options, readAtOnce);
}

/** The same with a reader of one's own. */
export async function openExtPillarFiles(
  { directory, maxBytes = 4 * 1024 * 1024 }: ExtPillarFilesOptions,
  reader: TextReader,
): Promise<ExtPillar> {
  const files = new DiskFiles(await HiddenDirectories.open([]));
  const read = async (name: string): Promise<FactMap | undefined> => {
    const found = await files.find(directory, name);
    if (found === undefined) return undefined;
    const { size } = found.stat;
    if (size > maxBytes) {
      throw new MasterError('ERR_PILLAR_FILE', `the file has more than ${maxBytes} bytes`);
    }
    const format = name.endsWith('.json') ? 'json' : 'yaml';
    return readPillarText(await found.read(0, size), format, reader);
  };
  return {
    name: 'files',
    provide: async ({ id }) => {
      // An id is a name here, whatever else ids may be.
      if (/[/\0]/.test(id)) return undefined;
      for (const ending of ['json', 'yaml', 'yml']) {
        const pillar = await read(`${id}.${ending}`);
        if (pillar !== undefined) return pillar;
      }
      return undefined;
    },
  };
}
