/**
 * The three ways to answer a request [WIRE 8; salt/channel/server.py]:
 *
 * send          packed Crypticle blob of the value, with the request's nonce from version 2 on
 * send_clear    the packed value itself
 * send_private  {key: OAEP of a one-time key, pillar: Crypticle blob under that key}, the blob of
 * the pillar, or from version 2 on of {data: packed {key, pillar, nonce}, sig}
 */

import type { KeyObject } from 'node:crypto';
import {
  type CrypticleKey,
  generateKeyString,
  openValue,
  parseKeyString,
  sealPacked,
  sealValue,
} from './crypt.ts';
import { ProtocolError } from './errors.ts';
import {
  isWireMap,
  loadLimits,
  type PayloadLimits,
  packWire,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from './payload.ts';
import type { ProtocolVersion } from './request.ts';
import {
  type EncryptionAlgorithm,
  rsaDecrypt,
  rsaEncrypt,
  rsaSign,
  rsaVerify,
  type SigningAlgorithm,
} from './rsa.ts';

/** What ties a reply to its request. */
export interface ReplyContext {
  readonly version: ProtocolVersion;
  /** The request's; needed from version 2 on. */
  readonly nonce?: string | undefined;
}

/** The outer map of a reply is shallow whatever it holds. */
const outerLimits: PayloadLimits = {
  ...loadLimits,
  maxBytes: loadLimits.maxBytes + 64 * 1024,
};

/** Packs a *send* reply, ready for the transport. @throws TypeError without a needed nonce */
export function encodeSendReply(
  key: CrypticleKey,
  value: WireValue,
  context: ReplyContext,
): Buffer {
  return packWire(sealValue(key, value, nonceOption(context)));
}

/**
 * A *send* reply of a value that was packed before, as pieces that make it up one after the other:
 * what many minions ask for is packed once, and the content of files is not copied.
 * @throws TypeError without a needed nonce
 */
export function encodePackedReply(
  key: CrypticleKey,
  packed: readonly Uint8Array[],
  context: ReplyContext,
): Buffer {
  return packWire(sealPacked(key, packed, nonceOption(context)));
}

function nonceOption({ version, nonce }: ReplyContext): { nonce?: string } {
  if (version < 2) return {};
  if (nonce === undefined) throw new TypeError('versions 2 and 3 need a nonce');
  return { nonce };
}

export interface PrivateReply extends ReplyContext {
  readonly pillar: WireValue;
  /** The accepted public key of the id that asked, never one from the request. */
  readonly minionKey: KeyObject;
  /** The master's private key. */
  readonly masterKey: KeyObject;
  readonly encAlgo: EncryptionAlgorithm;
  readonly sigAlgo: SigningAlgorithm;
  /** The one-time key; default: a new one. */
  readonly keyString?: string;
}

/** Packs a *send_private* reply, ready for the transport. Slow: RSA. */
export function encodePrivateReply(reply: PrivateReply): Buffer {
  const keyString = reply.keyString ?? generateKeyString();
  const key = rsaEncrypt(reply.minionKey, Buffer.from(keyString, 'latin1'), reply.encAlgo);
  const pillar = sealValue(parseKeyString(keyString), privateContent(reply, key));
  return packWire({ key, pillar });
}

function privateContent(reply: PrivateReply, key: Buffer): WireValue {
  const { pillar, masterKey, sigAlgo } = reply;
  const { nonce } = nonceOption(reply);
  if (nonce === undefined) return pillar;
  const data = packWire({ key, pillar, nonce });
  return { data, sig: rsaSign(masterKey, data, sigAlgo) };
}

/** How the minion opens a *send* reply. */
export interface SendReplyOptions extends ReplyContext {
  readonly key: CrypticleKey;
  readonly limits?: PayloadLimits;
  /** Leave all text as bytes, as minions do with files. Default: false. */
  readonly raw?: boolean;
}

/**
 * Opens a *send* reply. ERR_BAD_HMAC (also for the text `bad load`) means: sign in again and repeat
 * the request once.
 * @throws ProtocolError ERR_BAD_REPLY, ERR_BAD_HMAC, ERR_NONCE, ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function openSendReply(bytes: Uint8Array, options: SendReplyOptions): WireValue {
  const blob = wireBytes(unpackWire(bytes, outerLimits));
  if (blob === undefined) throw badReply('not an encrypted value');
  return openValue(options.key, blob, {
    ...nonceOption(options),
    ...limitsOption(options),
    raw: options.raw ?? false,
  });
}

/** How the minion opens a *send_private* reply. */
export interface PrivateReplyOptions extends ReplyContext {
  /** The minion's private key. */
  readonly minionKey: KeyObject;
  /** The master's public key, as stored. */
  readonly masterKey: KeyObject;
  readonly encAlgo: EncryptionAlgorithm;
  readonly sigAlgo: SigningAlgorithm;
  readonly limits?: PayloadLimits;
}

/**
 * Opens a *send_private* reply and gives the pillar. ERR_BAD_REPLY and ERR_BAD_SIGNATURE mean: sign
 * in again and repeat the request once.
 * @throws ProtocolError ERR_BAD_REPLY, ERR_DECRYPT, ERR_BAD_HMAC, ERR_BAD_SIGNATURE, ERR_NONCE, …
 */
export function openPrivateReply(bytes: Uint8Array, options: PrivateReplyOptions): WireValue {
  const reply = unpackWire(bytes, outerLimits);
  const wrapped = isWireMap(reply) ? wireBytes(reply.key) : undefined;
  const blob = isWireMap(reply) ? wireBytes(reply.pillar) : undefined;
  if (wrapped === undefined || blob === undefined) throw badReply('no key or no pillar');
  const keyString = rsaDecrypt(options.minionKey, wrapped, options.encAlgo).toString('latin1');
  const content = openValue(parseKeyString(keyString), blob, limitsOption(options));
  if (options.version < 2) return content;
  if (!isWireMap(content)) throw badReply('no signed map');
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
    throw new ProtocolError('ERR_BAD_SIGNATURE', 'a pillar that the master has not signed');
  }
  const signed = unpackWire(data, options.limits);
  if (!isWireMap(signed) || signed.pillar === undefined) throw badReply('no pillar');
  const key = wireBytes(signed.key);
  if (!key || !Buffer.from(key).equals(wrapped)) throw badReply('the key is not the signed one');
  if (signed.nonce !== options.nonce) {
    throw new ProtocolError('ERR_NONCE', 'a pillar for another request');
  }
  return signed.pillar;
}

function badReply(what: string): ProtocolError {
  return new ProtocolError('ERR_BAD_REPLY', `unusable reply: ${what}`);
}
