import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { open, readFile, rename, unlink } from 'node:fs/promises';
import path from 'node:path';
import { isMissing, withFileInErrors } from './system.ts';

/** Function that is called before each change of a file, so that tests can interrupt it. */
export type BeforeStep = (step: string) => void;

/** Content of a file. The parts of an iterable are written one after the other. */
type FileContent = string | Uint8Array | AsyncIterable<string>;

/**
 * Writes a file atomically. First writes a temporary file in the same directory, which has the
 * given mode from the start. Then synchronises the temporary file to disk and renames it to the
 * target [THREATS G-10].
 * @param beforeStep - called before each change of a file
 */
export async function writeFileAtomically(
  file: string,
  content: FileContent,
  mode: number,
  beforeStep: BeforeStep = () => {},
): Promise<void> {
  await withFileInErrors(file, () => writeWhole(file, content, mode, beforeStep));
  beforeStep('synchronise the directory');
  await syncDirectory(path.dirname(file));
}

async function writeWhole(
  file: string,
  content: FileContent,
  mode: number,
  beforeStep: BeforeStep,
): Promise<void> {
  const temporary = `${file}.${randomBytes(6).toString('hex')}.tmp`;
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  beforeStep('create the file');
  const handle = await open(temporary, flags, mode);
  try {
    await handle.chmod(mode);
    beforeStep('write the file');
    await handle.writeFile(content);
    beforeStep('synchronise the file');
    await handle.sync();
    await handle.close();
    beforeStep('rename the file');
    await rename(temporary, file);
  } catch (error) {
    await handle.close().catch(() => {
      // The file was already closed. The original error is thrown below.
    });
    await unlink(temporary).catch(() => {
      // The temporary file does not exist, so there is nothing to remove.
    });
    throw error;
  }
}

/** Synchronises a directory, so that its file names are durable. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Synchronises a file, so that its content is durable. */
export async function syncFile(file: string): Promise<void> {
  const handle = await open(file, constants.O_RDWR);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Returns the text of a file, or `undefined` if it does not exist. */
export async function readTextIfPresent(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
