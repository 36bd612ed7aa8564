/** Keys that the bridge generates once for its own use. */

import { randomBytes } from 'node:crypto';
import type { StateArea } from '#master';

/**
 * Returns the key in a row of the store. Generates it on first use. The key is encrypted in the
 * store.
 * @throws StoreError
 */
export async function openSealedKey(
  state: Pick<StateArea, 'get' | 'seal' | 'unseal' | 'write'>,
  row: readonly string[],
): Promise<Uint8Array> {
  const known = await state.get(row);
  if (known !== undefined) return state.unseal(known.value);
  const key = randomBytes(32);
  try {
    await state.write([{ op: 'put', key: row, value: state.seal(key), ifRevision: 0 }]);
    return key;
  } catch (error) {
    // Another cluster member has generated the key in the meantime.
    const made = await state.get(row);
    if (made === undefined) throw error;
    return state.unseal(made.value);
  }
}
