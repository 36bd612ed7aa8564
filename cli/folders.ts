/** The master's folders, where root starts it for another account. */
import { accessSync, chownSync, constants } from 'node:fs';
import type { MasterConfig } from '../master/index.ts';
import { makeDirectorySync } from '../runtime/index.ts';
import type { Account } from './accounts.ts';
import { CommandError } from './errors.ts';

type FolderOptions = Pick<MasterConfig, 'pkiDir' | 'cachedir' | 'sockDir' | 'stateDir'>;

/** Makes a folder, and those above it, for an account. What is there stays as it is. */
export function makeFolder(folder: string, mode: number, owner: Account | undefined): void {
  for (const made of makeDirectorySync(folder, mode)) {
    if (owner !== undefined) chownSync(made, owner.uid, owner.gid);
  }
}

/** Makes the master's own folders that are missing. */
export function makeFolders(config: FolderOptions, owner: Account): void {
  for (const [, folder] of foldersOf(config)) makeFolder(folder, 0o700, owner);
}

/**
 * Looks whether this process, having become the account, may use the folders.
 * @throws CommandError ERR_USER, with what to do
 */
export function checkFolders(config: FolderOptions, { name }: Account): void {
  for (const [option, folder] of foldersOf(config)) {
    try {
      accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    } catch (cause) {
      const remedy = `give it to that user: chown -R ${name}: ${folder}`;
      const message = `user: ${name} may not use ${option}; ${remedy}`;
      throw new CommandError('ERR_USER', message, { cause });
    }
  }
}

function foldersOf(config: FolderOptions): readonly (readonly [option: string, folder: string])[] {
  return [
    ['pki_dir', config.pkiDir],
    ['cachedir', config.cachedir],
    ['sock_dir', config.sockDir],
    ['saltbridge: state_dir', config.stateDir],
  ];
}
