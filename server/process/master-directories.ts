/** The directories of a master that changes from root to another account. */

import { accessSync, constants } from 'node:fs';
import type { MasterConfig } from '#config';
import type { Account } from './account.ts';
import { ProcessError } from './errors.ts';
import { createOwnedDirectory } from './owned-files.ts';

type DirectoryOptions = Pick<MasterConfig, 'pkiDir' | 'cachedir' | 'sockDir' | 'stateDir'>;

/** Creates the missing directories of the master. */
export function createMasterDirectories(config: DirectoryOptions, owner: Account): void {
  for (const [, folder] of masterDirectories(config)) createOwnedDirectory(folder, 0o700, owner);
}

/**
 * Checks that this process can use the master's directories after the change of account.
 * @throws ProcessError ERR_USER; its message says how to correct the permissions
 */
export function checkMasterDirectories(config: DirectoryOptions, { name }: Account): void {
  for (const [option, folder] of masterDirectories(config)) {
    try {
      accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    } catch (cause) {
      const remedy = `make the user its owner: chown -R ${name}: ${folder}`;
      const message = `user: the account ${name} has no access to ${option}; ${remedy}`;
      throw new ProcessError('ERR_USER', message, { cause });
    }
  }
}

function masterDirectories(
  config: DirectoryOptions,
): readonly (readonly [option: string, folder: string])[] {
  return [
    ['pki_dir', config.pkiDir],
    ['cachedir', config.cachedir],
    ['sock_dir', config.sockDir],
    ['saltbridge: state_dir', config.stateDir],
  ];
}
