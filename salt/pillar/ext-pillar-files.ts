/** External pillar from a directory of JSON and YAML files. */

import { type ExtPillar, MasterError } from '#master';
import type { FactMap } from '#minion-protocol';
import { DiskFiles, HiddenDirectories } from '../file-trees/disk-files.ts';
import { readPillarText, type TextReader, textReaderOfPrograms } from './pillar-text.ts';

/** Options of `extPillarFiles`. */
export interface ExtPillarFilesOptions {
  /**
   * Absolute path of a directory with `<id>.json`, `<id>.yaml` or `<id>.yml`. The first existing
   * file is used.
   */
  readonly directory: string;
  /** Maximum size of a file, in bytes. Default: 4 MiB. */
  readonly maxBytes?: number;
}

/**
 * Opens external pillar from one file per minion. The files are plain data and are not rendered. A
 * minion without a file gets nothing from this source. Links that leave the directory are not
 * followed.
 */
export function extPillarFiles(options: ExtPillarFilesOptions): Promise<ExtPillar> {
  return openExtPillarFiles(options, textReaderOfPrograms());
}

/**
 * Opens external pillar from one file per minion, with a given parser.
 * @param reader - parses the files; tests can replace it
 */
export async function openExtPillarFiles(
  { directory, maxBytes = 4 * 1024 * 1024 }: ExtPillarFilesOptions,
  reader: TextReader,
): Promise<ExtPillar> {
  const files = new DiskFiles(await HiddenDirectories.open([]));
  const read = async (name: string, owner: string): Promise<FactMap | undefined> => {
    const found = await files.find(directory, name);
    if (found === undefined) return undefined;
    const { size } = found.stat;
    if (size > maxBytes) {
      throw new MasterError(
        'ERR_PILLAR_FILE',
        `${name}: larger than the maximum of ${maxBytes} bytes`,
      );
    }
    const format = name.endsWith('.json') ? 'json' : 'yaml';
    return readPillarText(await found.read(0, size), format, { reader, owner });
  };
  return {
    name: 'files',
    provide: async ({ id }) => {
      // The id is used as a file name. Some valid ids are not valid file names, so minions with
      // such ids get no pillar here.
      if (/[/\0]/.test(id)) return undefined;
      for (const ending of ['json', 'yaml', 'yml']) {
        const pillar = await read(`${id}.${ending}`, id);
        if (pillar !== undefined) return pillar;
      }
      return undefined;
    },
  };
}
