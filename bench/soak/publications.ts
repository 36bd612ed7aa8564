import type { KeyObject } from 'node:crypto';
import {
  type CrypticleKey,
  openPublication,
  ProtocolError,
  type WireValue,
} from '../../minion-protocol/index.ts';

/** As many as are on their way to different minions at the same time. */
const remembered = 64;

interface Opened {
  readonly envelope: Uint8Array;
  readonly aes: string;
  readonly load: WireValue | ProtocolError;
}

/**
 * Opens what is published, signature and all. All minions of the swarm hear the same bytes, and
 * what opening them costs on hundreds of machines is not the master's: those that have the same
 * publish key share the work.
 */
export class PublicationReader {
  readonly #opened: Opened[] = [];

  /** @throws ProtocolError ERR_BAD_HMAC under another key */
  open(envelope: Uint8Array, key: CrypticleKey, masterPublic: KeyObject): WireValue {
    const known = this.#opened.find(
      (it) => it.aes === key.text && Buffer.compare(it.envelope, envelope) === 0,
    );
    const load = known?.load ?? this.#openNow(envelope, key, masterPublic);
    if (load instanceof ProtocolError) throw load;
    return load;
  }

  #openNow(
    envelope: Uint8Array,
    key: CrypticleKey,
    masterPublic: KeyObject,
  ): WireValue | ProtocolError {
    const load = tryOpen(envelope, key, masterPublic);
    // A copy: what is cut from a stream would keep all of it.
    this.#opened.unshift({ envelope: Buffer.from(envelope), aes: key.text, load });
    if (this.#opened.length > remembered) this.#opened.pop();
    return load;
  }
}

function tryOpen(
  envelope: Uint8Array,
  key: CrypticleKey,
  masterPublic: KeyObject,
): WireValue | ProtocolError {
  try {
    return openPublication(envelope, { key, masterPublic, requireSignature: true });
  } catch (error) {
    if (error instanceof ProtocolError) return error;
    throw error;
  }
}
