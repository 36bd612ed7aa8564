/** The `fileserver` runner [salt/runners/fileserver.py]. */

import type { FileLists, MasterFunction } from '#master';
import type { WireValue } from '#minion-protocol';
import type { FileServer } from '../file-trees/file-server.ts';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { flag, names, optional, text } from '../functions/parameters.ts';

export interface FileserverRunnerDeps {
  readonly fileServer: FileServer;
}

const backend = { backend: optional(names) } as const;

export function fileserverRunner({ fileServer }: FileserverRunnerDeps): FunctionTable {
  return {
    'fileserver.envs': masterFunction({
      summary: 'The environments that files are served from; with sources=True by backend.',
      parameters: { ...backend, sources: optional(flag, false) },
      call: ({ backend: wanted, sources: isByBackend }) => {
        const narrowed = narrow(fileServer, wanted);
        if (!isByBackend) return narrowed.envs();
        // What is sorted in Salt is the map: its keys are left.
        return narrowed.backends.map(({ name }) => name).sort();
      },
    }),
    'fileserver.file_list': list(fileServer, 'The files of an environment.', ({ files }) => [
      ...files,
    ]),
    'fileserver.dir_list': list(fileServer, 'The directories of an environment.', ({ dirs }) => [
      ...dirs,
    ]),
    'fileserver.empty_dir_list': list(
      fileServer,
      'The directories of an environment with nothing in them.',
      ({ emptyDirs }) => [...emptyDirs],
    ),
    'fileserver.symlink_list': list(
      fileServer,
      'The symbolic links of an environment, and where each points.',
      ({ links }) => Object.fromEntries(links),
    ),
    'fileserver.update': masterFunction({
      summary:
        'Fetches remote repositories, and looks for changes that the system did not tell of.',
      parameters: backend,
      takesMore: true,
      call: async ({ backend: wanted }) => {
        await narrow(fileServer, wanted).update();
        return true;
      },
    }),
    'fileserver.clear_file_list_cache': masterFunction({
      summary: 'Makes the lists of files anew, and gives their environments by backend.',
      parameters: { saltenv: optional(names), ...backend },
      call: async ({ saltenv, backend: wanted }) => {
        const refreshed = await narrow(fileServer, wanted).refresh(saltenv);
        return Object.fromEntries([...refreshed].map(([name, envs]) => [name, [...envs]]));
      },
    }),
    ...versionControl,
  };
}

/** About backends with a version control system behind them, of which this master has none. */
const versionControl: FunctionTable = {
  'fileserver.clear_cache': masterFunction({
    summary: 'Says that no backend keeps copies of what it serves.',
    parameters: backend,
    call: () => 'No cache was cleared',
  }),
  'fileserver.clear_lock': masterFunction({
    summary: 'Says that no backend can be locked.',
    parameters: { ...backend, remote: optional(text) },
    call: () => 'No locks were removed',
  }),
  'fileserver.lock': masterFunction({
    summary: 'Says that no backend can be locked.',
    parameters: { ...backend, remote: optional(text) },
    call: () => 'No locks were set',
  }),
};

function list(
  fileServer: FileServer,
  summary: string,
  pick: (lists: FileLists) => WireValue,
): MasterFunction {
  return masterFunction({
    summary,
    parameters: { saltenv: optional(text, 'base'), ...backend },
    call: async ({ saltenv, backend: wanted }) =>
      pick(await narrow(fileServer, wanted).lists(saltenv)),
  });
}

/** Names choose backends; where each begins with `-`, they leave out. Unknown ones do nothing. */
function narrow(fileServer: FileServer, wanted: readonly string[] | undefined): FileServer {
  if (wanted === undefined) return fileServer;
  const isSubtracted = wanted.every((name) => name.startsWith('-'));
  // As in fileserver_backend.
  const names = wanted.map((name) => name.replace(/^(-?)git$/, '$1gitfs'));
  return fileServer.narrowedTo(({ name }) =>
    isSubtracted ? !names.includes(`-${name}`) : names.includes(name),
  );
}
