import type { KeyObject } from 'node:crypto';
import { type CrypticleKey, ProtocolError, type WireValue } from '#minion-protocol';
import { openPublication } from '#minion-protocol/publication.ts';

/**
 * As many as are published in half a minute, so that a swarm that is behind does not fall further
 * behind by opening everything anew.
 */
const remembered = 4096;

type Opened = WireValue | ProtocolError;

/**
 * Opens what is published, signature and all. All minions of the swarm hear the same bytes, and
 * what opening them costs on hundreds of machines is not the master's: those that have the same
 * publish key share the work.
 */
export class PublicationReader {
  readonly #opened = new Map<string, Opened>();

  /** @throws ProtocolError ERR_BAD_HMAC under another key */
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
