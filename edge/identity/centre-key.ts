import type { KeyObject } from 'node:crypto';
import path from 'node:path';
import type { ExtensionHost } from '#master';
import { generateKey, keyOfSeed, seedOf } from './ed25519.ts';
import { readKey, writeKey } from './key-file.ts';
import { sharedSecret } from './shared-secret.ts';

const row = ['centre', 'key'];

/** Returns the directory for the files of a centre, `<state_dir>/sites`. */
export function centreDirectory(stateDir: string): string {
  return path.join(stateDir, 'sites');
}

/**
 * Returns the online key of a centre, with which the running centre signs messages and tickets.
 * Outside a cluster, the key is in the file `<state_dir>/sites/centre.key`. The file is created if
 * it does not exist. If the store contains a key from a former cluster, that key is used instead.
 * In a cluster, all members read the key from the shared store. The first member stores the key of
 * its file there. If it has no file, it derives the key from the secret of the cluster.
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
