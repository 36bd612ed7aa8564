/** How the files of an embedded store are recognised. */
import { open } from 'node:fs/promises';
import { StoreError } from './errors.ts';
import { encodeKey } from './key.ts';
import { packNumber, unpackNumber } from './row-format.ts';
import type { Tables } from './tables.ts';

const layoutVersion = 1;
const layoutKey = encodeKey(['layout']);

/**
 * LMDB ends the process when it is given a file that is not its own, so look first.
 * @throws StoreError ERR_STORE_CORRUPT
 */
export async function checkSignature(file: string): Promise<void> {
  const signatureOffset = 24;
  const signature = 0xbeefc0de;
  const handle = await open(file);
  try {
    if ((await handle.stat()).size === 0) return;
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, signatureOffset);
    if (bytesRead < 4 || buffer.readUInt32LE() !== signature) {
      throw new StoreError('ERR_STORE_CORRUPT', `${file} is not a database of this store`);
    }
  } finally {
    await handle.close();
  }
}

/**
 * The layout of a store; `undefined` for one that has just been made.
 * @throws StoreError ERR_STORE_VERSION for one that this version does not know
 */
export function readLayout(tables: Tables, directory: string): number | undefined {
  const version = unpackNumber(tables.meta.get(layoutKey));
  if (version === 0) return undefined;
  if (version === layoutVersion) return version;
  throw new StoreError(
    'ERR_STORE_VERSION',
    `${directory} has layout ${version}, this version knows ${layoutVersion}`,
  );
}

/** Marks a store that has just been made. */
export async function writeLayout(tables: Tables): Promise<void> {
  await tables.transaction(() => tables.meta.put(layoutKey, packNumber(layoutVersion)));
}
