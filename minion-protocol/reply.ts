/**
 * The three kinds of replies to a request, named as in Salt [WIRE 8; salt/channel/server.py]:
 *
 * - *send* contains the value, encrypted with the key of the request. From version 2 on, the
 *   plaintext also contains the nonce of the request.
 * - *send_clear* contains the value, not encrypted.
 * - *send_private* contains a pillar for one minion. Its field `key` is a one-time key, encrypted
 *   with the minion's public key. Its field `pillar` is encrypted with the one-time key. From
 *   version 2 on, the plaintext of `pillar` is a signed map: `data` contains `key`, `pillar` and
 *   `nonce`, and `sig` is the master's signature of `data`.
 */

import type { KeyObject } from 'node:crypto';
import type { WorkBudget } from '#runtime';
import {
  type CrypticleKey,
  generateKeyString,
  openValue,
  parseKeyString,
  sealPacked,
  sealPackedInSlices,
} from './crypt.ts';
import { ProtocolError } from './errors.ts';
import { packWire, packWireMap, unpackWire } from './payload.ts';
import { loadLimits, type PayloadLimits } from './payload-limits.ts';
import type { ProtocolVersion } from './request.ts';
import {
  type EncryptionAlgorithm,
  rsaDecrypt,
  rsaEncrypt,
  rsaSign,
  rsaVerify,
  type SigningAlgorithm,
} from './rsa.ts';
import { isWireMap, type WireMap, type WireValue, wireBytes } from './wire-value.ts';

/** Properties of a request that its reply depends on. */
export interface ReplyContext {
  readonly version: ProtocolVersion;
  /** Nonce of the request, required from version 2 on. */
  readonly nonce?: string | undefined;
}

/**
 * Limits for unpacking a reply before its content is decrypted. A reply may be 64 KiB larger than
 * its content.
 */
const outerLimits: PayloadLimits = {
  ...loadLimits,
  maxBytes: loadLimits.maxBytes + 64 * 1024,
};

/**
 * Returns a *send* reply with a value that the caller has packed. The caller can therefore pack a
 * value only once for many minions, and need not copy the content of files.
 * @param key - key that encrypted the request
 * @param packed - the packed value, divided into one or more arrays
 * @throws TypeError if the nonce is missing and the version requires it
 */
export function encodePackedReply(
  key: CrypticleKey,
  packed: readonly Uint8Array[],
  context: ReplyContext,
): Buffer {
  return packWire(sealPacked(key, packed, nonceOption(context)));
}

/**
 * Returns a *send* reply like {@link encodePackedReply}, and encrypts it in slices. Other work runs
 * between the slices.
 * @throws TypeError if the nonce is missing and the version requires it
 */
export async function encodePackedReplyInSlices(
  key: CrypticleKey,
  packed: readonly Uint8Array[],
  context: ReplyContext,
  budget: WorkBudget,
): Promise<Buffer> {
  return packWire(await sealPackedInSlices(key, packed, budget, nonceOption(context)));
}

function nonceOption({ version, nonce }: ReplyContext): { nonce?: string } {
  if (version < 2) return {};
  if (nonce === undefined) throw new TypeError('protocol versions 2 and 3 need a nonce');
  return { nonce };
}

export interface PrivateReply extends ReplyContext {
  /**
   * Pillar, packed for the wire. Worker threads receive it as bytes, because values that are copied
   * to a thread lose the classes of floats and dates.
   */
  readonly packedPillar: Uint8Array;
  /** Accepted public key of the minion that sent the request. Never use a key from the request. */
  readonly minionKey: KeyObject;
  /** The master's private key. */
  readonly masterKey: KeyObject;
  readonly encAlgo: EncryptionAlgorithm;
  readonly sigAlgo: SigningAlgorithm;
  /** Key string of the one-time key that encrypts the pillar. Default: a new random key. */
  readonly keyString?: string;
}

/**
 * Encrypts and packs a pillar as a *send_private* reply, which only the minion can decrypt. Slow,
 * because it uses RSA.
 */
export function encodePrivateReply(reply: PrivateReply): Buffer {
  const keyString = reply.keyString ?? generateKeyString();
  const key = rsaEncrypt(reply.minionKey, Buffer.from(keyString, 'latin1'), reply.encAlgo);
  const pillar = sealPacked(parseKeyString(keyString), [privateContent(reply, key)]);
  return packWire({ key, pillar });
}

/**
 * Returns the packed value that the one-time key encrypts: the pillar, or from version 2 on the
 * signed map.
 */
function privateContent(reply: PrivateReply, key: Buffer): Uint8Array {
  const { packedPillar: pillar, masterKey, sigAlgo } = reply;
  const { nonce } = nonceOption(reply);
  if (nonce === undefined) return pillar;
  const data = packWireMap({ key: packWire(key), pillar, nonce: packWire(nonce) });
  return packWire({ data, sig: rsaSign(masterKey, data, sigAlgo) });
}

/** Options of {@link openSendReply}. */
export interface SendReplyOptions extends ReplyContext {
  readonly key: CrypticleKey;
  readonly limits?: PayloadLimits;
  /**
   * Whether every text is returned as bytes. Minions read file content in this way. Default:
   * `false`.
   */
  readonly raw?: boolean;
}

/**
 * Decrypts a *send* reply. After ERR_BAD_HMAC, sign in again and repeat the request once. The
 * unencrypted error reply `bad load` also causes ERR_BAD_HMAC.
 * @throws ProtocolError ERR_BAD_REPLY, ERR_BAD_HMAC, ERR_NONCE, ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function openSendReply(bytes: Uint8Array, options: SendReplyOptions): WireValue {
  const blob = wireBytes(unpackWire(bytes, outerLimits));
  if (blob === undefined) throw badReply('it does not contain an encrypted value');
  return openValue(options.key, blob, {
    ...nonceOption(options),
    ...limitsOption(options),
    raw: options.raw ?? false,
  });
}

/** Options of {@link openPrivateReply}. */
export interface PrivateReplyOptions extends ReplyContext {
  /** The minion's private key. */
  readonly minionKey: KeyObject;
  /** The stored public key of the master. */
  readonly masterKey: KeyObject;
  readonly encAlgo: EncryptionAlgorithm;
  readonly sigAlgo: SigningAlgorithm;
  readonly limits?: PayloadLimits;
}

/**
 * Decrypts a *send_private* reply and returns the pillar. After ERR_BAD_REPLY or ERR_BAD_SIGNATURE,
 * sign in again and repeat the request once.
 * @throws ProtocolError ERR_BAD_REPLY, ERR_DECRYPT, ERR_BAD_HMAC, ERR_BAD_SIGNATURE, ERR_NONCE, …
 */
export function openPrivateReply(bytes: Uint8Array, options: PrivateReplyOptions): WireValue {
  const reply = unpackWire(bytes, outerLimits);
  const wrapped = isWireMap(reply) ? wireBytes(reply.key) : undefined;
  const blob = isWireMap(reply) ? wireBytes(reply.pillar) : undefined;
  if (wrapped === undefined || blob === undefined)
    throw badReply('it lacks the encrypted key or the encrypted pillar');
  const keyString = rsaDecrypt(options.minionKey, wrapped, options.encAlgo).toString('latin1');
  const content = openValue(parseKeyString(keyString), blob, limitsOption(options));
  if (options.version < 2) return content;
  if (!isWireMap(content)) throw badReply('it lacks the signed map');
  return signedPillar(content, wrapped, options);
}

function limitsOption(options: { limits?: PayloadLimits }): { limits?: PayloadLimits } {
  return options.limits === undefined ? {} : { limits: options.limits };
}

function signedPillar(
  content: WireMap,
  wrapped: Uint8Array,
  options: PrivateReplyOptions,
): WireValue {
  const data = wireBytes(content.data);
  const sig = wireBytes(content.sig);
  if (!data || !sig || !rsaVerify(options.masterKey, data, sig, options.sigAlgo)) {
    throw new ProtocolError(
      'ERR_BAD_SIGNATURE',
      'the pillar is not signed with the stored key of the master',
    );
  }
  const signed = unpackWire(data, options.limits);
  if (!isWireMap(signed) || signed.pillar === undefined)
    throw badReply('the signed map contains no pillar');
  const key = wireBytes(signed.key);
  if (!key || !Buffer.from(key).equals(wrapped))
    throw badReply('its key differs from the key in the signed map');
  if (signed.nonce !== options.nonce) {
    throw new ProtocolError('ERR_NONCE', 'the nonce of the pillar does not match the request');
  }
  return signed.pillar;
}

function badReply(what: string): ProtocolError {
  return new ProtocolError('ERR_BAD_REPLY', `unusable reply: ${what}`);
}
