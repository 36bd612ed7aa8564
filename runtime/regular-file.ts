import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { Limit } from './limits.ts';

/**
 * Opens a regular file for reading. Does not wait for a writer if the path names a pipe.
 * @throws Error if the path names a pipe, a device or a directory; system errors
 */
export async function openRegularFile(file: string): Promise<FileHandle> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) throw new Error('it is not a regular file');
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/**
 * Returns the content of a regular file.
 * @param limit - maximum size of the file, in bytes. A larger file is not read
 * @throws Error if the file is larger, or not a regular file; system errors
 */
export async function readRegularFile(file: string, { total = Infinity }: Limit): Promise<Buffer> {
  const handle = await openRegularFile(file);
  try {
    const { size } = await handle.stat();
    if (size > total) throw new Error(`it is larger than ${total} bytes`);
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}
