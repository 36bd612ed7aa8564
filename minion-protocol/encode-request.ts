/** Encodes requests as minions send them [WIRE 5]. */

import { type CrypticleKey, sealValue } from './crypt.ts';
import { packWire } from './payload.ts';
import type { ProtocolVersion } from './request.ts';
import type { WireMap } from './wire-value.ts';

/** An unencrypted request, as a minion sends it. */
export interface ClearRequest {
  readonly enc: 'clear';
  readonly version: ProtocolVersion;
  readonly load: WireMap;
}

/** An encrypted request, as a minion sends it. */
export interface SealedRequest {
  readonly enc: 'aes';
  readonly version: ProtocolVersion;
  /** AES key of the master, or in version 3 the session key of the minion. */
  readonly key: CrypticleKey;
  /** Parameters of the request, including `cmd`, which names the request type. */
  readonly load: WireMap;
  /** Nonce of 32 hex digits. Required from version 2 on. */
  readonly nonce?: string;
  /** Fields that protocol version 3 adds to the load. Required in version 3, ignored in others. */
  readonly identity?: {
    readonly id: string;
    /** Time of the request, in seconds since 1970. */
    readonly ts: number;
    readonly tok: Uint8Array;
  };
  readonly encAlgo?: string;
  readonly sigAlgo?: string;
  /** Random block of 16 bytes that is encrypted into the IV. Only tests pass it. */
  readonly random?: Uint8Array;
}

/**
 * Packs a request.
 * @throws TypeError if a field that the version requires is missing
 */
export function encodeRequest(request: ClearRequest | SealedRequest): Buffer {
  if (request.enc === 'clear') {
    return packWire({ enc: 'clear', load: request.load, ...versionField(request.version) });
  }
  const { key, version, identity, encAlgo, sigAlgo, random } = request;
  return packWire({
    enc: 'aes',
    load: sealValue(key, sealedLoad(request), random === undefined ? {} : { random }),
    ...versionField(version),
    ...(version === 3 && identity ? { id: identity.id } : {}),
    ...(encAlgo === undefined ? {} : { enc_algo: encAlgo }),
    ...(sigAlgo === undefined ? {} : { sig_algo: sigAlgo }),
  });
}

function versionField(version: ProtocolVersion): WireMap {
  return version === 0 ? {} : { version };
}

/**
 * Returns the load of an encrypted request with the fields that its protocol version requires: the
 * nonce from version 2 on, and the identity in version 3 [salt/channel/client.py].
 */
function sealedLoad({ load, version, nonce, identity }: SealedRequest): WireMap {
  if (version < 2) return load;
  if (nonce === undefined) throw new TypeError('protocol versions 2 and 3 need a nonce');
  if (version === 2) return { ...load, nonce };
  if (identity === undefined)
    throw new TypeError('protocol version 3 needs the identity of the minion');
  return { ...load, nonce, ...identity };
}
