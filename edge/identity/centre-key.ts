import type { KeyObject } from 'node:crypto';
import path from 'node:path';
import type { ExtensionHost } from '#master';
import { generateKey, keyOfSeed, seedOf } from './ed25519.ts';
import { readKey, writeKey } from './key-file.ts';
import { sharedSecret } from './shared-secret.ts';

const row = ['centre', 'key'];

/** Returns the directory of the files of a centre. */
export function centreDirectory(stateDir: string): string {
  return path.join(stateDir, 'sites');
}

/**
 * Returns the online key of a centre. The members of a cluster read it from their store. The first
 * member stores the key that it had as a single centre, or else a key that it derives from the
 * secret of the cluster. A centre outside of a cluster has the file `<state_dir>/sites/centre.key`,
 * unless it was a member.
 */
export async function openCentreKey({
  config,
  shared,
}: Pick<ExtensionHost, 'shared'> & {
  readonly config: Pick<ExtensionHost['config'], 'stateDir'>;
}): Promise<KeyObject> {
  const directory = centreDirectory(config.stateDir);
  const { cluster } = shared;
  if (cluster !== undefined) {
    const seed = await sharedSecret(shared, row, async () => {
      const single = await readKey(directory, 'centre.key');
      return single === undefined ? cluster.derive('centre key') : seedOf(single);
    });
    return keyOfSeed(seed);
  }
  const ofCluster = await shared.get(row);
  if (ofCluster !== undefined) return keyOfSeed(shared.unseal(ofCluster.value));
  const known = await readKey(directory, 'centre.key');
  if (known !== undefined) return known;
  const key = generateKey();
  await writeKey(directory, 'centre.key', key);
  return key;
}
