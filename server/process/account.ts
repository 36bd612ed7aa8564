/** Accounts of this machine, and how a process that root started becomes another one's. */

import { accessSync, chownSync, constants } from 'node:fs';
import { userInfo } from 'node:os';
import type { MasterConfig } from '#config';
import { codeOf, makeDirectorySync } from '#runtime';
import { ProcessError } from './errors.ts';

/** An account that the process shall run as. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** What the process can do about Salt's `user`. */
export type UserChange =
  /** It is that user already, or none is asked for. */
  | { readonly kind: 'none' }
  | { readonly kind: 'become'; readonly account: Account }
  /** It is another user, and only root may change. */
  | { readonly kind: 'impossible' };

/**
 * Finds out what `user` asks for.
 * @throws ProcessError ERR_USER when there is no such account
 */
export function planUserChange(user: string | null): UserChange {
  const current = userInfo();
  if (user === null || user === current.username) return { kind: 'none' };
  if (current.uid !== 0) return { kind: 'impossible' };
  return { kind: 'become', account: findAccount(user) };
}

/** Root only: Node can ask who the effective user is, but not who an account is. */
function findAccount(name: string): Account {
  try {
    process.seteuid?.(name);
  } catch (cause) {
    if (codeOf(cause) === 'ERR_UNKNOWN_CREDENTIAL') {
      throw new ProcessError('ERR_USER', `user: there is no account ${name}`, { cause });
    }
    throw cause;
  }
  const { uid, gid } = userInfo();
  process.seteuid?.(0);
  return { name, uid, gid };
}

/** Gives up root for good: the account's groups, its group, then the account itself. */
export function becomeAccount({ name, uid, gid }: Account): void {
  // Node's types leave it out.
  const self: NodeJS.Process & { initgroups?(user: string, group: number): void } = process;
  self.initgroups?.(name, gid);
  process.setgid?.(gid);
  process.setuid?.(uid);
}

type DirectoryOptions = Pick<MasterConfig, 'pkiDir' | 'cachedir' | 'sockDir' | 'stateDir'>;

/** Makes a folder, and those above it, for an account. What is there stays as it is. */
export function createOwnedDirectory(
  folder: string,
  mode: number,
  owner: Account | undefined,
): void {
  for (const made of makeDirectorySync(folder, mode)) {
    if (owner !== undefined) chownSync(made, owner.uid, owner.gid);
  }
}

/** Makes the master's own folders that are missing. */
export function createMasterDirectories(config: DirectoryOptions, owner: Account): void {
  for (const [, folder] of masterDirectories(config)) createOwnedDirectory(folder, 0o700, owner);
}

/**
 * Looks whether this process, having become the account, may use the folders.
 * @throws ProcessError ERR_USER, with what to do
 */
export function checkMasterDirectories(config: DirectoryOptions, { name }: Account): void {
  for (const [option, folder] of masterDirectories(config)) {
    try {
      accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    } catch (cause) {
      const remedy = `give it to that user: chown -R ${name}: ${folder}`;
      const message = `user: ${name} may not use ${option}; ${remedy}`;
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
