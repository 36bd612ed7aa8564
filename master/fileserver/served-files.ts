/** The file server as a source of templates: what minions may read, the master may render. */
import type { FileServerBackend } from './backend.ts';
import type { FileServer } from './file-server.ts';

/** The file server is the master's, which closes it. */
export function servedFiles(fileServer: FileServer): FileServerBackend {
  return {
    name: 'served',
    envs: () => fileServer.envs(),
    find: async (place, saltenv) => (await fileServer.find(place, saltenv))?.file,
    lists: (saltenv) => fileServer.lists(saltenv),
    close: async () => {},
  };
}
