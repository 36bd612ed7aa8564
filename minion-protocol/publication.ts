/**
 * A job on its way to the minions [WIRE 11.1; salt/channel/server.py PubServerChannel].
 *
 *     {enc: "aes", load: Crypticle blob, sig_algo, sig}     sig over the bytes of load
 */

import type { KeyObject } from 'node:crypto';
import {
  type CrypticleKey,
  defaultSigningAlgorithm,
  isSigningAlgorithm,
  openValue,
  rsaSign,
  rsaVerify,
  type SigningAlgorithm,
  sealValue,
} from './crypt.ts';
import { ProtocolError } from './errors.ts';
import {
  clearLimits,
  isWireMap,
  loadLimits,
  type PayloadLimits,
  packWire,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from './payload.ts';
import type { PublicationLoad } from './request.ts';

const outerLimits: PayloadLimits = {
  ...clearLimits,
  maxBytes: loadLimits.maxBytes + 64 * 1024,
  uniqueKeys: true,
};

/** How {@link buildPublication} encrypts and signs. */
export interface PublicationOptions {
  /** The master AES key. */
  readonly key: CrypticleKey;
  /** Greater than any before under this key, at least 1 [WIRE 3.4]. */
  readonly serial: number;
  /** The master's private key; without it the publication is not signed. */
  readonly masterKey?: KeyObject;
  /** Default: `PKCS1v15-SHA1`, Salt's `publish_signing_algorithm`. */
  readonly sigAlgo?: SigningAlgorithm;
  /** 16 bytes, for tests only. */
  readonly random?: Uint8Array;
}

/** Encrypts, signs and packs a publication. Signing is slow: see {@link sealPublication}. */
export function buildPublication(load: PublicationLoad, options: PublicationOptions): Buffer {
  const { key, serial, masterKey, sigAlgo = defaultSigningAlgorithm, random } = options;
  const blob = sealPublication({ ...load, serial }, key, random);
  const signature = masterKey && rsaSign(masterKey, blob, sigAlgo);
  return publicationEnvelope(blob, signature, sigAlgo);
}

/** The encrypted load, of which a worker may make the signature. `load` has its `serial`. */
export function sealPublication(
  load: PublicationLoad,
  key: CrypticleKey,
  random?: Uint8Array,
): Buffer {
  return sealValue(key, load, random === undefined ? {} : { random });
}

/** Packs a sealed publication with the signature of its bytes, if there is one. */
export function publicationEnvelope(
  blob: Uint8Array,
  signature?: Uint8Array,
  sigAlgo: SigningAlgorithm = defaultSigningAlgorithm,
): Buffer {
  // protection: unsigned-jobs
  const signed: WireMap = signature ? { sig_algo: sigAlgo, sig: signature } : {};
  return packWire({ enc: 'aes', load: blob, ...signed });
}

/** How a minion opens a publication. */
export interface OpenPublicationOptions {
  /** The master AES key. */
  readonly key: CrypticleKey;
  /** The stored public key of the master; needed to require signatures. */
  readonly masterPublic?: KeyObject;
  /** Salt's `sign_pub_messages` on the minion. Default: false, signatures are not looked at. */
  readonly requireSignature?: boolean;
  readonly limits?: PayloadLimits;
}

/**
 * Opens a publication. The value still has its `serial`: give it to the key's {@link SerialGuard}.
 * ERR_BAD_HMAC means: sign in again and open the same bytes with the new key.
 * @throws ProtocolError ERR_BAD_ENVELOPE, ERR_BAD_SIGNATURE, ERR_BAD_HMAC, ERR_BAD_PAYLOAD, …
 */
export function openPublication(bytes: Uint8Array, options: OpenPublicationOptions): WireValue {
  const envelope = unpackWire(bytes, outerLimits);
  const blob = isWireMap(envelope) && envelope.enc === 'aes' ? wireBytes(envelope.load) : undefined;
  if (!isWireMap(envelope) || blob === undefined) {
    throw new ProtocolError('ERR_BAD_ENVELOPE', 'not a publication');
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
  if (!isGenuine) throw new ProtocolError('ERR_BAD_SIGNATURE', 'not signed by the stored master');
}

// Job ids [WIRE 11.3; salt/utils/jid.py]: `YYYYMMDDhhmmssffffff`, UTC, perhaps `_suffix`.

const jidForm = /^\d{20}(_.+)?$/s;
const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})/;
const microsecondsPerMillisecond = 1000;

/**
 * A source of job ids that never gives one twice: where the clock stands still or goes back, the
 * next microsecond is taken.
 * @param uniqueSuffix - appended after `_`, as Salt does with `unique_jid`
 */
export function createJidSource(now: () => number = Date.now, uniqueSuffix?: string): () => string {
  const suffix = uniqueSuffix === undefined ? '' : `_${uniqueSuffix}`;
  let last = 0;
  return () => {
    last = Math.max(last + 1, now() * microsecondsPerMillisecond);
    return toDigits(last) + suffix;
  };
}

function toDigits(microseconds: number): string {
  const date = new Date(Math.floor(microseconds / microsecondsPerMillisecond));
  const fraction = String(microseconds % microsecondsPerMillisecond).padStart(3, '0');
  return date.toISOString().replace(/\D/g, '') + fraction;
}

/** Whether `text` has the form of a job id. */
export function isJid(text: unknown): text is string {
  return typeof text === 'string' && jidForm.test(text);
}

/** When the job was made, to the millisecond; `undefined` when the text tells no time. */
export function jidTime(jid: string): Date | undefined {
  const match = isJid(jid) ? parts.exec(jid) : null;
  if (!match) return undefined;
  const [, year, month, day, hour, minute, second, millisecond] = match;
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.${millisecond}Z`;
  const time = new Date(iso);
  // Date takes 30 February for a day in March.
  return Number.isNaN(time.getTime()) || time.toISOString() !== iso ? undefined : time;
}
