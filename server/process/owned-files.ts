/**
 * Creates files and directories for the account of a master while the process still runs as root.
 *
 * The account owns some of the directories, so it can replace names in them by links at any time.
 * Therefore the process creates and opens everything with the rights of the account. Root itself
 * acts only where the account cannot replace a name on the way.
 */

import {
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  realpathSync,
  statSync,
} from 'node:fs';
import path from 'node:path';
import { codeOf, directoriesOnTheWay, makeDirectorySync } from '#runtime';
import { type Account, actAs } from './account.ts';
import { ProcessError } from './errors.ts';

/**
 * Creates a directory and its missing parents, which then belong to the account. Existing
 * directories stay unchanged.
 * @param owner - `undefined` for the account of this process
 * @throws ProcessError ERR_USER if the account may not create the directory, and could have led
 * root elsewhere; the system error otherwise
 */
export function createOwnedDirectory(
  directory: string,
  mode: number,
  owner: Account | undefined,
): void {
  if (owner === undefined) {
    makeDirectorySync(directory, mode);
    return;
  }
  for (const each of directoriesOnTheWay(directory)) {
    if (statSync(each, { throwIfNoEntry: false })?.isDirectory()) continue;
    asOwnerOrRoot(each, owner, {
      asOwner: () => mkdirSync(each, mode),
      asRoot: () => {
        mkdirSync(each, mode);
        lchownSync(each, owner.uid, owner.gid);
      },
    });
  }
}

/**
 * Opens a file, and creates it if it is missing. A new file belongs to the account.
 * @param flags - flags of open(2)
 * @param owner - `undefined` for the account of this process
 * @returns file descriptor
 * @throws ProcessError ERR_USER if the account may not open the file, and could have led root to
 * another one; the system error otherwise
 */
export function openOwnedFile(
  file: string,
  flags: number,
  mode: number,
  owner: Account | undefined,
): number {
  const open = (more = 0): number => openSync(file, flags | constants.O_CREAT | more, mode);
  if (owner === undefined) return open();
  return asOwnerOrRoot(file, owner, {
    asOwner: open,
    asRoot: () => {
      const isNew = lstatSync(file, { throwIfNoEntry: false }) === undefined;
      const descriptor = open(constants.O_NOFOLLOW);
      const { nlink } = fstatSync(descriptor);
      if (nlink !== 1) {
        closeSync(descriptor);
        throw refusal(file, owner);
      }
      if (isNew) fchownSync(descriptor, owner.uid, owner.gid);
      return descriptor;
    },
  });
}

interface Attempts<Result> {
  asOwner(): Result;
  asRoot(): Result;
}

/** Acts as the account. If it has no permission, acts as root where the account has no influence. */
function asOwnerOrRoot<Result>(
  file: string,
  owner: Account,
  { asOwner, asRoot }: Attempts<Result>,
): Result {
  try {
    return actAs(owner, asOwner);
  } catch (error) {
    if (codeOf(error) !== 'EACCES') throw error;
    if (canReplaceNames(path.dirname(file), owner)) throw refusal(file, owner, error);
    return asRoot();
  }
}

function refusal(file: string, { name }: Account, cause?: unknown): ProcessError {
  return new ProcessError(
    'ERR_USER',
    `user: the account ${name} has no access to ${file}, and root does not use this file, because ${name} can replace it by a link; make the user its owner: chown -h ${name}: ${file}`,
    { cause },
  );
}

/** Whether the account can replace a name in the directory, or a name on the way to it. */
function canReplaceNames(directory: string, { uid, gid }: Account): boolean {
  return directoriesPassed(directory).some((each) => {
    const found = lstatSync(each);
    if (found.uid === uid) return true;
    if (found.gid === gid && (found.mode & constants.S_IWGRP) !== 0) return true;
    const isSticky = (found.mode & stickyBit) !== 0;
    return (found.mode & constants.S_IWOTH) !== 0 && !isSticky;
  });
}

/** In a directory with this bit, only the owner of a name can replace it. */
const stickyBit = 0o1000;

/** Returns the directories that the system passes on the way to a directory, also through links. */
function directoriesPassed(directory: string): readonly string[] {
  return directoriesOnTheWay(directory).flatMap((each) => {
    if (!lstatSync(each).isSymbolicLink()) return [each];
    const parent = realpathSync(path.dirname(each));
    return directoriesPassed(path.resolve(parent, readlinkSync(each)));
  });
}
