/** Combines several file server backends into one. */

import type { FileServerBackend } from '#master';
import { FileServer } from './file-server.ts';

/** Combines backends into one. The caller closes the original backends. */
export function asBackend(name: string, backends: readonly FileServerBackend[]): FileServerBackend {
  const server = new FileServer(backends);
  return {
    name,
    envs: () => server.envs(),
    find: async (path, saltenv) => (await server.findAt({ path, saltenv }))?.file,
    lists: (saltenv, requester) => server.lists(saltenv, requester),
    close: async () => {},
  };
}

/**
 * Returns the file server as a backend from which templates are read. Paths may have a `?saltenv=`
 * query.
 */
export function servedFiles(fileServer: FileServer): FileServerBackend {
  return {
    ...asBackend('served', fileServer.backends),
    find: async (place, saltenv) => (await fileServer.find(place, saltenv))?.file,
  };
}
