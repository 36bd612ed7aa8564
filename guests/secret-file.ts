import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { BridgeOptionsError } from '#heat-bridge';
import type { ExtensionHost } from '#master';

/** Minimum length of a secret, in characters. */
const minLength = 16;

/**
 * Reads a secret from a file.
 * @param key - option that names the file, for error messages
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export async function readSecretFile(
  file: string,
  { config }: Pick<ExtensionHost, 'config'>,
  key: string,
): Promise<string> {
  try {
    const whole = path.resolve(path.dirname(config.confFile), file);
    const secret = (await readFile(whole, 'utf8')).trim();
    checkSecret(secret);
    return secret;
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : 'unreadable';
    throw new BridgeOptionsError([{ key, problem }], { cause });
  }
}

/**
 * Checks the length of a secret.
 * @throws TypeError if it is too short
 */
export function checkSecret(secret: string): void {
  if (secret.length < minLength) {
    throw new TypeError(`the shared secret must have at least ${minLength} characters`);
  }
}
