/** Files with a private key. */

import { createPrivateKey, type KeyObject } from 'node:crypto';
import path from 'node:path';
import { makeDirectory, readTextIfPresent, writeFileAtomically } from '#runtime';
import { EdgeError } from '../errors.ts';

/**
 * Reads the private key in a file, or returns `undefined` if the file does not exist.
 * @throws EdgeError ERR_SITE_STATE if the file contains no key of this type
 */
export async function readKey(
  directory: string,
  name: string,
  type: 'ed25519' | 'x25519' = 'ed25519',
): Promise<KeyObject | undefined> {
  const text = await readTextIfPresent(path.join(directory, name));
  if (text === undefined) return undefined;
  try {
    const key = createPrivateKey(text);
    if (key.asymmetricKeyType === type) return key;
  } catch {
    // Do not add the error of OpenSSL, because it may contain parts of the private key.
  }
  throw new EdgeError('ERR_SITE_STATE', `${directory}: the file ${name} contains no ${type} key`);
}

/** Writes a private key to a file of mode 0600. */
export async function writeKey(directory: string, name: string, key: KeyObject): Promise<void> {
  await makeDirectory(directory, 0o700);
  const text = key.export({ format: 'pem', type: 'pkcs8' });
  await writeFileAtomically(path.join(directory, name), text, 0o600);
}
