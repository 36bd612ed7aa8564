import { chmod, mkdtemp, rename, rm } from 'node:fs/promises';
import type { Server } from 'node:net';
import path from 'node:path';

/**
 * Binds a Unix socket that only this user may open, in place of one that is there. It is bound in a new
 * folder that only this user may enter, and moved into place with its rights set: nobody else can
 * connect at any moment. (A umask would do, but it is the whole process's, and worker threads may
 * not set it.)
 */
export async function listenPrivately(server: Server, socketPath: string): Promise<void> {
  const directory = await mkdtemp(`${path.dirname(socketPath)}/.`);
  const bound = path.join(directory, 's');
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(bound, resolve);
    });
    await chmod(bound, 0o600);
    await rename(bound, socketPath);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
