import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { BridgeOptionsError } from '#heat-bridge';
import type { ExtensionHost } from '#master';

/** Characters below which a secret can be guessed. */
const minLength = 16;

/**
 * Reads a secret that a section names.
 * @param key - of the section, for errors
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

/** @throws TypeError for a secret that can be guessed */
export function checkSecret(secret: string): void {
  if (secret.length < minLength) {
    throw new TypeError(`expected a secret of at least ${minLength} characters`);
  }
}
