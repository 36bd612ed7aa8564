/** Finds reactor files on the file server and on the disk [salt/utils/reactor.py ReactWrap]. */

import { expandGlob } from '#config';
import { type FileServerBackend, noFiles } from '#master';
import { DiskFiles, HiddenDirectories } from '../file-trees/disk-files.ts';
import type { FileServer } from '../file-trees/file-server.ts';
import { requestedFile } from '../file-trees/requested-file.ts';
import { servedFiles } from '../file-trees/served-files.ts';
import { PillarSources } from '../render/pillar-sources.ts';
import type { SourceFile } from '../render/source-file.ts';

export interface ReactorFilesOptions {
  readonly fileServer: FileServer;
  /** Directories that are never read. */
  readonly hidden: readonly string[];
  readonly trimBlocks: boolean;
  readonly lstripBlocks: boolean;
}

/** Reads reactor files. Each version of a file is parsed only once. */
export interface ReactorFiles {
  /**
   * Returns the files to which an entry of the option `reactor` refers. The list may be empty.
   * @throws MasterError ERR_PILLAR_FILE
   */
  find(reference: string): Promise<readonly SourceFile[]>;
  /**
   * Returns a file that a template of the reactor imports. As in Salt, imported files come from the
   * file server.
   * @throws MasterError ERR_PILLAR_FILE
   */
  imported(place: string): Promise<SourceFile | undefined>;
}

export async function openReactorFiles(options: ReactorFilesOptions): Promise<ReactorFiles> {
  const { trimBlocks, lstripBlocks } = options;
  const hidden = await HiddenDirectories.open(options.hidden);
  const open = (backend: FileServerBackend): PillarSources =>
    new PillarSources({ backend, trimBlocks, lstripBlocks });
  const served = open(servedFiles(options.fileServer));
  const local = open(ofDisk(hidden));
  return {
    find: async (reference) => {
      const found = reference.startsWith('salt://')
        ? [await findServed(served, reference.slice('salt://'.length))]
        : await Promise.all((await expandGlob(reference)).map((it) => local.read(it.slice(1), '')));
      return found.filter((file) => file !== undefined);
    },
    imported: (place) => served.read(place, 'base'),
  };
}

async function findServed(served: PillarSources, place: string): Promise<SourceFile | undefined> {
  const asked = requestedFile(place, 'base');
  return asked === undefined ? undefined : served.read(asked.path, asked.saltenv);
}

function ofDisk(hidden: HiddenDirectories): FileServerBackend {
  const files = new DiskFiles(hidden);
  return {
    name: 'disk',
    envs: () => [],
    find: (place) => files.find('/', place),
    lists: async () => noFiles,
    close: async () => {},
  };
}
