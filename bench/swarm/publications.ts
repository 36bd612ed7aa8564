import type { KeyObject } from 'node:crypto';
import { type CrypticleKey, ProtocolError, type WireValue } from '#minion-protocol';
import { openPublication } from '#minion-protocol/publication.ts';

/**
 * Maximum number of decrypted publications that are cached. As many are published in half a minute.
 * A slow swarm therefore does not have to decrypt a publication twice.
 */
const remembered = 4096;

type Opened = WireValue | ProtocolError;

/**
 * Decrypts publications and verifies their signatures. All minions of the swarm receive the same
 * bytes. In reality, hundreds of machines would share the work of decrypting them. Therefore
 * minions with the same publish key share the result.
 */
export class PublicationReader {
  readonly #opened = new Map<string, Opened>();

  /**
   * Decrypts a publication.
   * @throws ProtocolError ERR_BAD_HMAC if it was encrypted with another key
   */
  open(envelope: Buffer, key: CrypticleKey, masterPublic: KeyObject): WireValue {
    const name = key.text + envelope.toString('latin1');
    const load = this.#opened.get(name) ?? this.#openNow(name, envelope, key, masterPublic);
    if (load instanceof ProtocolError) throw load;
    return load;
  }

  #openNow(name: string, envelope: Buffer, key: CrypticleKey, masterPublic: KeyObject): Opened {
    const load = tryOpen(envelope, key, masterPublic);
    this.#opened.set(name, load);
    const [oldest] = this.#opened.keys();
    if (this.#opened.size > remembered && oldest !== undefined) this.#opened.delete(oldest);
    return load;
  }
}

function tryOpen(envelope: Buffer, key: CrypticleKey, masterPublic: KeyObject): Opened {
  try {
    return openPublication(envelope, { key, masterPublic, requireSignature: true });
  } catch (error) {
    if (error instanceof ProtocolError) return error;
    throw error;
  }
}
