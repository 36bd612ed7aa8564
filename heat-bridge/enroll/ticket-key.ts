/** The key that tickets are signed with: in a file of its own, outside the store and its backups. */
import { randomBytes } from 'node:crypto';
import nacl from 'tweetnacl';
import { readTextIfPresent, writeFileAtomically } from '../../master/index.ts';
import { BridgeError } from '../errors.ts';

/** An Ed25519 pair. */
export interface TicketKey {
  /** 32 bytes. */
  readonly publicKey: Uint8Array;
  /** 64 bytes. */
  readonly secretKey: Uint8Array;
}

/**
 * Reads the key (0600, 44 characters of base64), or makes it.
 * @throws BridgeError ERR_TICKET_KEY for a file that holds none
 */
export async function openTicketKey(file: string): Promise<TicketKey> {
  const text = await readTextIfPresent(file);
  if (text === undefined) {
    const seed = randomBytes(nacl.sign.seedLength);
    await writeFileAtomically(file, `${seed.toString('base64')}\n`, 0o600);
    return nacl.sign.keyPair.fromSeed(new Uint8Array(seed));
  }
  const seed = Buffer.from(text.trim(), 'base64');
  if (seed.length !== nacl.sign.seedLength) {
    throw new BridgeError(
      'ERR_TICKET_KEY',
      `${file}: expected ${nacl.sign.seedLength} bytes in base64`,
    );
  }
  return nacl.sign.keyPair.fromSeed(new Uint8Array(seed));
}
