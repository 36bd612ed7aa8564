import { chmod, mkdtemp, open, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { sealBackup } from './backup-file.ts';
import { StoreError } from './errors.ts';

/** A backup that is whole and on disk. */
export interface BackupReceipt {
  /** Where it is; the whole path. */
  readonly file: string;
  readonly bytes: number;
}

const partialName = /^\.saltbridge-backup-(\d+)-/;

/**
 * Makes a backup (0600) that appears under its name whole, or not at all.
 * @param copyTo - writes the database as `data.mdb` into the directory given
 * @param target - a file that is not there, or a directory, where it is named by the time
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
    await removeLeftBehind(directory);
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

/** Makes the names of a directory durable. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A time as names of files have it: `20240102T030405Z`. */
export function timeInName(time: Date): string {
  return time.toISOString().replaceAll(/[-:]|\.\d+/g, '');
}

async function nameBackup(target: string, now: Date): Promise<string> {
  const found = await stat(target).catch(() => undefined);
  if (found === undefined) return target;
  if (found.isDirectory()) {
    return nameBackup(path.join(target, `saltbridge-store-${timeInName(now)}.mdb`), now);
  }
  throw new StoreError('ERR_STORE_BACKUP', `${target} is there already; nothing is replaced`);
}

/** What backups left that were killed on their way. */
async function removeLeftBehind(directory: string): Promise<void> {
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
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH');
  }
}

function asStoreError(file: string, cause: unknown): StoreError {
  if (cause instanceof StoreError) return cause;
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'failed';
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new StoreError('ERR_STORE_FULL', `no room for ${file}`, { cause });
  }
  return new StoreError('ERR_STORE_BACKUP', `${file} cannot be written (${code})`, { cause });
}
