/** Lists and copies the files of a master, for example for an export or import. */

import { hash } from 'node:crypto';
import { constants } from 'node:fs';
import { lchown, lstat, open, readdir, readlink, rm, stat, symlink } from 'node:fs/promises';
import path from 'node:path';
import { hashFile, ifPresent, makeDirectory } from '#runtime';

/**
 * Returns the regular files below a directory, and the symbolic links to places inside it, as
 * sorted relative paths. Skips other links and sockets. Files and directories may be deleted
 * meanwhile. Returns an empty list if the directory does not exist.
 * @param isLeftOut - called with the relative path of each file and directory; returns whether to
 * skip it
 */
export async function listFiles(
  root: string,
  isLeftOut: (name: string) => boolean = () => false,
): Promise<string[]> {
  const found: string[] = [];
  const walk = async (below: string): Promise<void> => {
    const directory = path.join(root, below);
    const entries = (await ifPresent(readdir(directory, { withFileTypes: true }))) ?? [];
    for (const entry of entries) {
      const name = path.join(below, entry.name);
      if (isLeftOut(name)) continue;
      if (entry.isFile() || (entry.isSymbolicLink() && (await isInner(path.join(root, name))))) {
        found.push(name);
      } else if (entry.isDirectory()) await walk(name);
    }
  };
  await walk('');
  return found.sort();
}

/** Whether a symbolic link exists and names a place in or below its own directory. */
async function isInner(link: string): Promise<boolean> {
  const target = await ifPresent(readlink(link));
  if (target === undefined) return false;
  return !path.isAbsolute(target) && !target.split('/').includes('..');
}

export async function isLink(file: string): Promise<boolean> {
  return (await lstat(file)).isSymbolicLink();
}

/**
 * Returns the SHA-256 of a file in hexadecimal.
 * @param asLink - whether to return the digest of the target of a symbolic link instead. Default:
 * whether the file is a symbolic link
 */
export async function digestFile(file: string, asLink?: boolean): Promise<string> {
  if (asLink ?? (await isLink(file))) return hash('sha256', await readlink(file));
  return (await hashFile(file, 'sha256')).toString('hex');
}

/**
 * Copies a file or a symbolic link durably. The target must not exist. Missing directories are
 * created with mode 0700.
 */
export async function copyFile(from: string, to: string): Promise<void> {
  await makeDirectory(path.dirname(to), 0o700);
  if (await isLink(from)) {
    await symlink(await readlink(from), to);
    return;
  }
  const source = await open(from, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const target = await open(to, 'wx', 0o600);
    try {
      for await (const chunk of source.createReadStream({ autoClose: false })) {
        await target.writeFile(chunk);
      }
      await target.chmod((await source.stat()).mode & 0o777);
      await target.sync();
    } catch (error) {
      await rm(to, { force: true });
      throw error;
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

/**
 * If this process runs as root, changes the owner of the files that it created to the owner of
 * their directory. Otherwise that owner could not use the files.
 */
export async function giveToOwners(directories: readonly string[]): Promise<void> {
  if (process.getuid?.() !== 0) return;
  for (const directory of directories) {
    const found = await stat(directory).catch(() => undefined);
    if (found !== undefined && found.uid !== 0) await give(directory, found.uid, found.gid);
  }
}

/**
 * Start time of this process in milliseconds since 1970, less one second, because the clock of the
 * file system is coarse. This process did not create files that are older.
 */
const ownMs = performance.timeOrigin - 1000;

/**
 * Changes the owner of new files in one directory. Uses handles of open directories, because the
 * owner of the directory could replace an entry by a link at any time.
 */
async function give(directory: string, uid: number, gid: number): Promise<void> {
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  const handle = await open(directory, flags);
  try {
    const opened = `/proc/self/fd/${handle.fd}`;
    for (const name of await readdir(opened)) {
      const file = `${opened}/${name}`;
      const found = await lstat(file);
      if (found.uid === 0 && found.ctimeMs >= ownMs) await lchown(file, uid, gid);
      if (found.isDirectory()) await give(file, uid, gid);
    }
  } finally {
    await handle.close();
  }
}
