import type { SharedArea } from '#master';
import type { Key } from '#store';
import { isConflict } from '#store';

/**
 * Returns the secret that the store of the centre contains under this key. If there is none, stores
 * the result of `create`. If several members of a cluster create it at the same time, all get the
 * secret of the first.
 */
export async function sharedSecret(
  shared: Pick<SharedArea, 'get' | 'seal' | 'unseal' | 'write'>,
  key: Key,
  create: () => Promise<Uint8Array> | Uint8Array,
): Promise<Uint8Array> {
  const found = await shared.get(key);
  if (found !== undefined) return shared.unseal(found.value);
  const secret = await create();
  try {
    await shared.write([{ op: 'put', key, value: shared.seal(secret), ifRevision: 0 }]);
    return secret;
  } catch (error) {
    const first = isConflict(error) ? await shared.get(key) : undefined;
    if (first === undefined) throw error;
    return shared.unseal(first.value);
  }
}
