/**
 * A backup is one file: LMDB's own copy of the database, which LMDB's tools can open, and behind
 * it a seal that LMDB does not look at:
 *
 *     data.mdb   "SALTBRIDGE STORE"   SHA-256 of data.mdb (32)
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { StoreError } from './errors.ts';

const mark = Buffer.from('SALTBRIDGE STORE', 'latin1');
const digestBytes = 32;
const sealBytes = mark.length + digestBytes;

/** Puts the seal behind a copy of the database, and synchronises it. */
export async function sealBackup(file: string): Promise<void> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file)) hash.update(chunk);
  const handle = await open(file, 'a');
  try {
    await handle.writeFile(Buffer.concat([mark, hash.digest()]));
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Reads a backup to its end and compares its seal.
 * @param write - given the database, in pieces; it is good only when this has resolved
 * @returns the size of the database
 * @throws StoreError ERR_STORE_CORRUPT when it is no backup, cut short or altered;
 * ERR_STORE_BACKUP when it cannot be read
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
    throw new StoreError('ERR_STORE_BACKUP', `${file} cannot be read`, { cause });
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
  if (!seal.subarray(0, mark.length).equals(mark)) throw damaged(file, 'it has no seal at its end');
  const hash = createHash('sha256');
  const end = bytes - 1;
  if (bytes > 0) {
    for await (const chunk of handle.createReadStream({ start: 0, end, autoClose: false })) {
      hash.update(chunk);
      await write(chunk);
    }
  }
  if (!hash.digest().equals(seal.subarray(mark.length))) {
    throw damaged(file, 'its content is not what was written');
  }
  return bytes;
}

function damaged(file: string, why: string): StoreError {
  return new StoreError('ERR_STORE_CORRUPT', `${file} is no whole backup of a store: ${why}`);
}
