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
      summary:
        'Returns the environments of the file server; with sources=True, the names of its back ends.',
      parameters: { ...backend, sources: optional(flag, false) },
      call: ({ backend: wanted, sources: isByBackend }) => {
        const narrowed = narrow(fileServer, wanted);
        if (!isByBackend) return narrowed.envs();
        // Salt calls `sorted` on this map, which returns only its keys.
        return narrowed.backends.map(({ name }) => name).sort();
      },
    }),
    'fileserver.file_list': list(fileServer, 'Lists the files of an environment.', ({ files }) => [
      ...files,
    ]),
    'fileserver.dir_list': list(
      fileServer,
      'Lists the directories of an environment.',
      ({ dirs }) => [...dirs],
    ),
    'fileserver.empty_dir_list': list(
      fileServer,
      'Lists the empty directories of an environment.',
      ({ emptyDirs }) => [...emptyDirs],
    ),
    'fileserver.symlink_list': list(
      fileServer,
      'Lists the symbolic links of an environment and their targets.',
      ({ links }) => Object.fromEntries(links),
    ),
    'fileserver.update': masterFunction({
      summary: 'Fetches remote repositories, and searches the file roots for changes.',
      parameters: backend,
      takesMore: true,
      call: async ({ backend: wanted }) => {
        await narrow(fileServer, wanted).update();
        return true;
      },
    }),
    'fileserver.clear_file_list_cache': masterFunction({
      summary:
        'Rebuilds the lists of files; returns for each back end the environments whose lists were rebuilt.',
      parameters: { saltenv: optional(names), ...backend },
      call: async ({ saltenv, backend: wanted }) => {
        const refreshed = await narrow(fileServer, wanted).refresh(saltenv);
        return Object.fromEntries([...refreshed].map(([name, envs]) => [name, [...envs]]));
      },
    }),
    ...versionControl,
  };
}

/**
 * Functions for the caches and locks of version control backends. This master has none, so these
 * functions do nothing.
 */
const versionControl: FunctionTable = {
  'fileserver.clear_cache': masterFunction({
    summary: 'Does nothing: no back end has a cache.',
    parameters: backend,
    call: () => 'No cache was cleared',
  }),
  'fileserver.clear_lock': masterFunction({
    summary: 'Does nothing: no back end can be locked.',
    parameters: { ...backend, remote: optional(text) },
    call: () => 'No locks were removed',
  }),
  'fileserver.lock': masterFunction({
    summary: 'Does nothing: no back end can be locked.',
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

/**
 * Selects backends by name. If every name begins with `-`, the named backends are excluded. Unknown
 * names are ignored.
 */
function narrow(fileServer: FileServer, wanted: readonly string[] | undefined): FileServer {
  if (wanted === undefined) return fileServer;
  const isSubtracted = wanted.every((name) => name.startsWith('-'));
  // `git` is an alias of `gitfs`, as in fileserver_backend.
  const names = wanted.map((name) => name.replace(/^(-?)git$/, '$1gitfs'));
  return fileServer.narrowedTo(({ name }) =>
    isSubtracted ? !names.includes(`-${name}`) : names.includes(name),
  );
}
