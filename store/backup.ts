import { createHash } from 'node:crypto';
import { chmod, type FileHandle, mkdtemp, open, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { codeOf, hashFile, ifPresent, isDiskFull, syncDirectory } from '#runtime';
import { StoreError } from './errors.ts';

// A backup is one file. It consists of LMDB's own copy of the database, which LMDB's tools can
// open, and a seal after it, which LMDB ignores:
//
//     data.mdb   "SALTBRIDGE STORE"   SHA-256 of data.mdb (32)

const mark = Buffer.from('SALTBRIDGE STORE', 'latin1');
const digestBytes = 32;
const sealBytes = mark.length + digestBytes;

/**
 * Appends a marker and a SHA-256 checksum to a copy of the database, which makes it a complete
 * backup. Then synchronises the file to disk.
 */
async function sealBackup(file: string): Promise<void> {
  const digest = await hashFile(file, 'sha256');
  const handle = await open(file, 'a');
  try {
    await handle.writeFile(Buffer.concat([mark, digest]));
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Reads a backup to its end and verifies the checksum that follows the database.
 * @param write - called with each piece of the database. The checksum is verified at the end, so
 * discard the pieces if the promise rejects
 * @returns the size of the database, in bytes
 * @throws StoreError ERR_STORE_CORRUPT if the file is not a backup, is truncated or was altered;
 * ERR_STORE_BACKUP if it cannot be read
 */
export async function readBackup(
  file: string,
  write: (chunk: Buffer) => Promise<void> = async () => {},
): Promise<number> {
  const handle = await openBackup(file);
  try {
    return await readSealed(handle, file, write);
  } finally {
    await handle.close();
  }
}

async function openBackup(file: string): Promise<FileHandle> {
  try {
    return await open(file, 'r');
  } catch (cause) {
    throw new StoreError('ERR_STORE_BACKUP', `cannot read ${file}`, { cause });
  }
}

async function readSealed(
  handle: FileHandle,
  file: string,
  write: (chunk: Buffer) => Promise<void>,
): Promise<number> {
  const { size } = await handle.stat();
  const bytes = Math.max(0, size - sealBytes);
  const seal = Buffer.alloc(sealBytes);
  await handle.read(seal, 0, sealBytes, bytes);
  if (!seal.subarray(0, mark.length).equals(mark))
    throw damagedBackupError(file, 'the checksum at the end of the backup is missing');
  const hash = createHash('sha256');
  const end = bytes - 1;
  if (bytes > 0) {
    for await (const chunk of handle.createReadStream({ start: 0, end, autoClose: false })) {
      hash.update(chunk);
      await write(chunk);
    }
  }
  if (!hash.digest().equals(seal.subarray(mark.length))) {
    throw damagedBackupError(
      file,
      'the content does not match the checksum at the end of the backup',
    );
  }
  return bytes;
}

function damagedBackupError(file: string, why: string): StoreError {
  return new StoreError('ERR_STORE_CORRUPT', `${file} is not a complete backup of a store: ${why}`);
}

/** A complete backup on disk. */
export interface BackupReceipt {
  /** Absolute path of the backup. */
  readonly file: string;
  readonly bytes: number;
  /**
   * Position in the cluster's log. The backup contains at least all changes up to this position.
   * Set only for a member of a cluster.
   */
  readonly position?: number;
}

const partialName = /^\.saltbridge-backup-(\d+)-/;

/**
 * Creates a backup (mode 0600). The file appears under its name only when it is complete.
 * @param copyTo - writes the database as `data.mdb` into the given directory
 * @param target - path of a new file, or an existing directory, in which the file is named after
 * the current time
 * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL
 */
export async function writeBackup(
  copyTo: (directory: string) => Promise<void>,
  target: string,
  now: Date,
): Promise<BackupReceipt> {
  const file = await nameBackup(path.resolve(target), now);
  const directory = path.dirname(file);
  try {
    await removeStalePartials(directory);
    const partial = await mkdtemp(path.join(directory, `.saltbridge-backup-${process.pid}-`));
    try {
      const data = path.join(partial, 'data.mdb');
      await copyTo(partial);
      await chmod(data, 0o600);
      await sealBackup(data);
      await rename(data, file);
    } finally {
      await rm(partial, { recursive: true, force: true });
    }
    await syncDirectory(directory);
    return { file, bytes: (await stat(file)).size };
  } catch (cause) {
    throw asStoreError(file, cause);
  }
}

/** Returns a time in the form used in file names: `20240102T030405Z`. */
export function fileTimestamp(time: Date): string {
  return time.toISOString().replaceAll(/[-:]|\.\d+/g, '');
}

async function nameBackup(target: string, now: Date): Promise<string> {
  const found = await ifPresent(stat(target));
  if (found === undefined) return target;
  if (found.isDirectory()) {
    return nameBackup(path.join(target, `saltbridge-store-${fileTimestamp(now)}.mdb`), now);
  }
  throw new StoreError(
    'ERR_STORE_BACKUP',
    `${target} already exists and is not overwritten; choose a different name`,
  );
}

/** Removes temporary files of incomplete backups whose process was killed. */
async function removeStalePartials(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const [, pid] = partialName.exec(name) ?? [];
    if (pid === undefined || isAlive(Number(pid))) continue;
    await rm(path.join(directory, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) !== 'ESRCH';
  }
}

function asStoreError(file: string, cause: unknown): StoreError {
  if (cause instanceof StoreError) return cause;
  if (isDiskFull(cause)) {
    return new StoreError('ERR_STORE_FULL', `the disk is full: cannot write ${file}`, { cause });
  }
  const code = codeOf(cause) ?? 'failed';
  return new StoreError('ERR_STORE_BACKUP', `cannot write ${file} (${code})`, { cause });
}
