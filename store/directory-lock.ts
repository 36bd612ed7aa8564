import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createConnection, createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { StoreError } from './errors.ts';

/**
 * A program that was being started when a lock was given back has a copy of it for a moment, until
 * it runs: what is taken is looked at again.
 */
const maxTries = 5;
const retryMs = 50;

/**
 * Takes the directory for this process. The lock is a bound abstract Unix socket (Linux), which
 * the kernel drops with the process however it ends. It excludes processes of the same network
 * namespace; containers that share a directory but no network are not seen.
 * @param directory - its real path
 * @returns the function that gives it back
 * @throws StoreError ERR_STORE_LOCKED
 */
export async function lockDirectory(directory: string): Promise<() => Promise<void>> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await tryLock(directory);
    } catch (error) {
      if (!isTaken(error) || tries === maxTries) throw lockError(directory, error);
      await pause(retryMs);
    }
  }
}

async function tryLock(directory: string): Promise<() => Promise<void>> {
  const server = createServer((connection) => connection.destroy()).unref();
  // Exclusive: the workers of a cluster would share the socket otherwise.
  server.listen({ path: lockPath(directory), exclusive: true });
  await once(server, 'listening');
  return async () => {
    server.close();
    await once(server, 'close');
  };
}

/** Whether a process has taken the directory. Takes nothing itself. */
export async function isDirectoryLocked(directory: string): Promise<boolean> {
  const connection = createConnection(lockPath(directory));
  try {
    await once(connection, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    connection.destroy();
  }
}

function lockPath(directory: string): string {
  const name = createHash('sha256').update(directory).digest('hex');
  return `\0saltbridge-store-${name}`;
}

function isTaken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
}

function lockError(directory: string, cause: unknown): StoreError {
  if (isTaken(cause)) {
    return new StoreError(
      'ERR_STORE_LOCKED',
      `${directory} is in use by another process, or opened twice by this one; ` +
        'stop that process (saltbridge master?), or ask it through its local socket',
      { cause },
    );
  }
  return new StoreError('ERR_STORE_UNAVAILABLE', `${directory} could not be locked`, { cause });
}
