import { stat } from 'node:fs/promises';
import { makeDirectory } from '../runtime/index.ts';
import { MasterError } from './errors.ts';

/**
 * Makes the folders that hold keys and state, for this user alone, and refuses one that others may
 * write to [THREATS G-10].
 */
export async function preparePrivateDirectories(directories: readonly string[]): Promise<void> {
  for (const directory of directories) {
    await makeDirectory(directory, 0o700);
    const { mode } = await stat(directory);
    if ((mode & 0o002) !== 0) {
      throw new MasterError(
        'ERR_OWN_KEY',
        `${directory} may be written by everybody; remove that right: chmod o-w`,
      );
    }
  }
}
