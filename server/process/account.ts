/**
 * Looks up accounts of this machine, and changes the account of a process that root has started.
 */

import { accessSync, chownSync, constants } from 'node:fs';
import { userInfo } from 'node:os';
import type { MasterConfig } from '#config';
import { codeOf, makeDirectorySync } from '#runtime';
import { ProcessError } from './errors.ts';

/** Account under which the process runs. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** Change of account that the option `user` requires. */
export type UserChange =
  /** No change is needed: the process already runs as this user, or no user is set. */
  | { readonly kind: 'none' }
  | { readonly kind: 'become'; readonly account: Account }
  /** The change is impossible, because only root may change to another user. */
  | { readonly kind: 'impossible' };

/**
 * Determines the change of account that the option `user` requires.
 * @param user - value of the option. `null` if it is not set
 * @throws ProcessError ERR_USER if the account does not exist
 */
export function planUserChange(user: string | null): UserChange {
  const current = userInfo();
  if (user === null || user === current.username) return { kind: 'none' };
  if (current.uid !== 0) return { kind: 'impossible' };
  return { kind: 'become', account: findAccount(user) };
}

/**
 * Looks up an account by its name. Only root can do this. Node.js has no function to look up an
 * account, so the process briefly becomes the account and reads its ids.
 */
function findAccount(name: string): Account {
  try {
    process.seteuid?.(name);
  } catch (cause) {
    if (codeOf(cause) === 'ERR_UNKNOWN_CREDENTIAL') {
      throw new ProcessError('ERR_USER', `user: the account ${name} does not exist`, { cause });
    }
    throw cause;
  }
  const { uid, gid } = userInfo();
  process.seteuid?.(0);
  return { name, uid, gid };
}

/**
 * Changes the process to an account permanently: sets its supplementary groups, its group and its
 * user, in this order.
 */
export function becomeAccount({ name, uid, gid }: Account): void {
  // Node's type declarations do not contain this method.
  const self: NodeJS.Process & { initgroups?(user: string, group: number): void } = process;
  self.initgroups?.(name, gid);
  process.setgid?.(gid);
  process.setuid?.(uid);
}

type DirectoryOptions = Pick<MasterConfig, 'pkiDir' | 'cachedir' | 'sockDir' | 'stateDir'>;

/**
 * Creates a directory and its missing parents, which then belong to the account. Existing
 * directories stay unchanged.
 */
export function createOwnedDirectory(
  folder: string,
  mode: number,
  owner: Account | undefined,
): void {
  for (const made of makeDirectorySync(folder, mode)) {
    if (owner !== undefined) chownSync(made, owner.uid, owner.gid);
  }
}

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
