/** The signing key of tickets: in a file of its own, outside the store and its backups. */

import { createPrivateKey, createPublicKey, type KeyObject, randomBytes } from 'node:crypto';
import { readTextIfPresent, writeFileAtomically } from '#runtime';
import { BridgeError } from '../errors.ts';

/** An Ed25519 pair. */
export interface TicketKey {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

const seedLength = 32;

/** What stands before the seed in PKCS #8 [RFC 8410]. */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

/**
 * Reads the key (0600, 44 characters of base64), or makes it.
 * @throws BridgeError ERR_TICKET_KEY for a file that holds none
 */
export async function openTicketKey(file: string): Promise<TicketKey> {
  const text = await readTextIfPresent(file);
  if (text === undefined) {
    const seed = randomBytes(seedLength);
    await writeFileAtomically(file, `${seed.toString('base64')}\n`, 0o600);
    return ticketKeyOf(seed);
  }
  const seed = Buffer.from(text.trim(), 'base64');
  if (seed.length !== seedLength) {
    throw new BridgeError('ERR_TICKET_KEY', `${file}: expected ${seedLength} bytes in base64`);
  }
  return ticketKeyOf(seed);
}

/** @param seed - 32 bytes */
export function ticketKeyOf(seed: Uint8Array): TicketKey {
  const der = Buffer.concat([pkcs8Prefix, seed]);
  const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  return { privateKey, publicKey: createPublicKey(privateKey) };
}
