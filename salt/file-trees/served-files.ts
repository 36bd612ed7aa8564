/** Several file server backends as one. */

import type { FileServerBackend } from '#master';
import { FileServer } from './file-server.ts';

/** Joins several backends into one. The caller still closes them. */
export function asBackend(name: string, backends: readonly FileServerBackend[]): FileServerBackend {
  const server = new FileServer(backends);
  return {
    name,
    envs: () => server.envs(),
    find: async (path, saltenv) => (await server.findAt({ path, saltenv }))?.file,
    lists: (saltenv) => server.lists(saltenv),
    close: async () => {},
  };
}

/** The file server as a source of templates, whose paths may have a query. */
export function servedFiles(fileServer: FileServer): FileServerBackend {
  return {
    ...asBackend('served', fileServer.backends),
    find: async (place, saltenv) => (await fileServer.find(place, saltenv))?.file,
  };
}
