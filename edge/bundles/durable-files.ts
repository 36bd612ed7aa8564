/** File operations whose promises resolve when the change is on disk. */

import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

/** Writes the entries of a directory to disk. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Called before each change of a file, so that tests can interrupt it. */
export type BeforeStep = (step: string) => void;
