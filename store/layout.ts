/** How the files of an embedded store are recognised, and what it knows of itself (table `meta`). */
import { open } from 'node:fs/promises';
import { StoreError } from './errors.ts';
import { encodeKey } from './key.ts';
import { unpackNumber } from './row-format.ts';
import type { Tables } from './tables.ts';

/** How the rows of this version are laid out; see row-format.ts. */
export const layoutVersion = 1;

/** Where the layout is written; absent in layout 0, and in a store that has just been made. */
export const layoutKey: Buffer = encodeKey(['layout']);

/** Where the revision of the last write is. */
export const revisionKey: Buffer = encodeKey(['revision']);

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
 * The layout of a store, {@link layoutVersion} or an older one.
 * @throws StoreError ERR_STORE_VERSION for one of a later version
 */
export function readLayout(tables: Tables, directory: string): number {
  const layout = unpackNumber(tables.meta.get(layoutKey));
  if (layout <= layoutVersion) return layout;
  throw new StoreError(
    'ERR_STORE_VERSION',
    `${directory} has layout ${layout}; this version knows layouts up to ${layoutVersion}`,
  );
}
