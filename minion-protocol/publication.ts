/**
 * The message that publishes a job to the minions [WIRE 11.1; salt/channel/server.py
 * PubServerChannel]. It is a map: `enc` is `aes`, and `load` is the encrypted load. In a signed
 * publication, `sig` is the signature of the bytes of `load`, and `sig_algo` names the algorithm.
 */

import type { KeyObject } from 'node:crypto';
import { type CrypticleKey, openValue } from './crypt.ts';
import { ProtocolError } from './errors.ts';
import { packWire, unpackWire } from './payload.ts';
import { clearLimits, loadLimits, type PayloadLimits } from './payload-limits.ts';
import {
  defaultSigningAlgorithm,
  isSigningAlgorithm,
  rsaVerify,
  type SigningAlgorithm,
} from './rsa.ts';
import { isWireMap, type WireMap, type WireValue, wireBytes } from './wire-value.ts';

const outerLimits: PayloadLimits = {
  ...clearLimits,
  maxBytes: loadLimits.maxBytes + 64 * 1024,
  uniqueKeys: true,
};

/**
 * Packs a publication.
 * @param blob - the encrypted load
 * @param signature - the master's signature of `blob`; if it is missing, the publication is not
 * signed
 */
export function publicationEnvelope(
  blob: Uint8Array,
  signature?: Uint8Array,
  sigAlgo: SigningAlgorithm = defaultSigningAlgorithm,
): Buffer {
  const signed: WireMap = signature ? { sig_algo: sigAlgo, sig: signature } : {};
  return packWire({ enc: 'aes', load: blob, ...signed });
}

/** Options of {@link openPublication}. */
export interface OpenPublicationOptions {
  /** Publish key of the master. */
  readonly key: CrypticleKey;
  /** Stored public key of the master. Required if `requireSignature` is `true`. */
  readonly masterPublic?: KeyObject;
  /**
   * Whether a valid signature is required (Salt's `sign_pub_messages` on the minion). Default:
   * `false`; then signatures are ignored.
   */
  readonly requireSignature?: boolean;
  readonly limits?: PayloadLimits;
}

/**
 * Decrypts a publication. The returned value still contains its `serial`; pass the value to
 * {@link SerialGuard.admit}, with one guard for each publish key. After ERR_BAD_HMAC, sign in again
 * and decrypt the same bytes with the new key.
 * @throws ProtocolError ERR_BAD_ENVELOPE, ERR_BAD_SIGNATURE, ERR_BAD_HMAC, ERR_BAD_PAYLOAD, …
 */
export function openPublication(bytes: Uint8Array, options: OpenPublicationOptions): WireValue {
  const envelope = unpackWire(bytes, outerLimits);
  const blob = isWireMap(envelope) && envelope.enc === 'aes' ? wireBytes(envelope.load) : undefined;
  if (!isWireMap(envelope) || blob === undefined) {
    throw new ProtocolError(
      'ERR_BAD_ENVELOPE',
      'the received message is not an encrypted publication',
    );
  }
  if (options.requireSignature) checkSignature(envelope, blob, options.masterPublic);
  return openValue(options.key, blob, options.limits ? { limits: options.limits } : {});
}

function checkSignature(
  envelope: WireMap,
  blob: Uint8Array,
  masterPublic: KeyObject | undefined,
): void {
  const { sig_algo: sigAlgo } = envelope;
  const sig = wireBytes(envelope.sig);
  const isGenuine =
    masterPublic !== undefined &&
    sig !== undefined &&
    isSigningAlgorithm(sigAlgo) &&
    rsaVerify(masterPublic, blob, sig, sigAlgo);
  if (!isGenuine)
    throw new ProtocolError(
      'ERR_BAD_SIGNATURE',
      'the publication is not signed with the stored key of the master',
    );
}
