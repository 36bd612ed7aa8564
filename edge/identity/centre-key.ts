import type { KeyObject } from 'node:crypto';
import path from 'node:path';
import type { ExtensionHost } from '#master';
import { generateKey, keyOfSeed } from './ed25519.ts';
import { readKey, writeKey } from './key-file.ts';

/** Returns the directory of the files of a centre. */
export function centreDirectory(stateDir: string): string {
  return path.join(stateDir, 'sites');
}

/**
 * Returns the online key of a centre. In a cluster, all members derive the same key from the
 * cluster's secret. A centre outside of a cluster creates the file `<state_dir>/sites/centre.key`.
 */
export async function openCentreKey({
  config,
  shared,
}: Pick<ExtensionHost, 'config' | 'shared'>): Promise<KeyObject> {
  if (shared.cluster !== undefined) return keyOfSeed(shared.cluster.derive('centre key'));
  const directory = centreDirectory(config.stateDir);
  const known = await readKey(directory, 'centre.key');
  if (known !== undefined) return known;
  const key = generateKey();
  await writeKey(directory, 'centre.key', key);
  return key;
}
