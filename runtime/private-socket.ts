import { chmod, mkdtemp, rename, rm } from 'node:fs/promises';
import type { Server } from 'node:net';
import path from 'node:path';

/**
 * Binds a Unix socket that only this user may open, and replaces an existing one. The socket is
 * created in a new directory that only this user may enter. It is moved to its path after its mode
 * is set, so that no other user can connect at any time. A umask is not used, because it applies to
 * the whole process and cannot be set in worker threads.
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
