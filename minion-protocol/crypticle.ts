/**
 * AES-192-CBC with HMAC-SHA256, as Salt pads and signs it [WIRE 3.4; salt/crypt.py Crypticle].
 *
 *     key string  base64 of  AES key (24) ‖ HMAC key (32)
 *     blob        IV (16) ‖ ciphertext ‖ HMAC of what comes before (32)
 *     plaintext   "pickle::" ‖ [nonce, 32 characters] ‖ packed value
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto';
import { ProtocolError } from './errors.ts';
import { type PayloadLimits, packWire, unpackRaw, unpackWire } from './payload.ts';
import { RandomPool } from './random-pool.ts';
import { emptyWireMap, isWireMap, type WireValue } from './wire-value.ts';

/** A key string and what is in it. Secret: never log it. */
export interface CrypticleKey {
  /** 76 characters of base64, as it travels and as it lies in files. */
  readonly text: string;
  readonly aesKey: Uint8Array;
  readonly hmacKey: Uint8Array;
}

const cipherName = 'aes-192-cbc';
const aesKeySize = 24;
const keySize = 56;
const blockSize = 16;
const hmacSize = 32;
const nonceSize = 32;
const sliceSize = 32 * 1024;
const prefix = Buffer.from('pickle::', 'latin1');
const initializationVectors = new RandomPool();
const keyStringForm = /^[A-Za-z0-9+/]{75}=$/;

/** @throws ProtocolError ERR_BAD_KEY_STRING */
export function parseKeyString(text: string): CrypticleKey {
  const bytes = Buffer.from(text, 'base64');
  if (!keyStringForm.test(text) || bytes.length !== keySize) {
    throw new ProtocolError('ERR_BAD_KEY_STRING', `not a key string: ${text.length} characters`);
  }
  return { text, aesKey: bytes.subarray(0, aesKeySize), hmacKey: bytes.subarray(aesKeySize) };
}

/** A new key string. */
export function generateKeyString(random: (size: number) => Uint8Array = randomBytes): string {
  return Buffer.from(random(keySize)).toString('base64');
}

/** Encrypts and signs. `iv` (16 bytes) is for tests only: it must never be used twice. */
export function seal(
  key: CrypticleKey,
  plaintext: Uint8Array,
  iv: Uint8Array = initializationVectors.take(blockSize),
): Buffer {
  return sealPieces(key, [plaintext], iv);
}

/** Slice by slice, each encrypted and signed while it is in the processor's cache (bench/fileserver). */
function sealPieces(key: CrypticleKey, pieces: readonly Uint8Array[], iv: Uint8Array): Buffer {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const paddedLength = length - (length % blockSize) + blockSize;
  const blob = Buffer.allocUnsafe(blockSize + paddedLength + hmacSize);
  const cipher = createCipheriv(cipherName, key.aesKey, iv);
  const mac = createHmac('sha256', key.hmacKey);
  let end = 0;
  const put = (bytes: Uint8Array): void => {
    mac.update(bytes);
    blob.set(bytes, end);
    end += bytes.length;
  };
  put(iv);
  for (const piece of pieces) {
    for (let start = 0; start < piece.length; start += sliceSize) {
      put(cipher.update(piece.subarray(start, start + sliceSize)));
    }
  }
  put(cipher.final());
  blob.set(mac.digest(), end);
  return blob;
}

/**
 * Verifies and decrypts a blob. The HMAC comes first and is compared in constant time, so that
 * nothing about padding or content shows to somebody without the key.
 * @throws ProtocolError ERR_BAD_HMAC, ERR_BAD_PADDING
 */
export function open(key: CrypticleKey, blob: Uint8Array): Buffer {
  const sealed = blob.subarray(0, Math.max(0, blob.length - hmacSize));
  const received = blob.subarray(sealed.length);
  if (received.length !== hmacSize || !timingSafeEqual(received, hmac(key, sealed))) {
    throw new ProtocolError('ERR_BAD_HMAC', `wrong HMAC on a blob of ${blob.length} bytes`);
  }
  return decrypt(key, sealed);
}

function decrypt(key: CrypticleKey, sealed: Uint8Array): Buffer {
  try {
    const decipher = createDecipheriv(cipherName, key.aesKey, sealed.subarray(0, blockSize));
    return Buffer.concat([decipher.update(sealed.subarray(blockSize)), decipher.final()]);
  } catch (cause) {
    throw new ProtocolError('ERR_BAD_PADDING', 'signed ciphertext does not decrypt', { cause });
  }
}

function hmac(key: CrypticleKey, bytes: Uint8Array): Buffer {
  return createHmac('sha256', key.hmacKey).update(bytes).digest();
}

/** Options of {@link sealValue}. */
export interface SealOptions {
  /** 32 characters, in replies of protocol versions 2 and 3 only. */
  readonly nonce?: string;
  /** 16 bytes, for tests only. */
  readonly iv?: Uint8Array;
}

/** Packs, encrypts and signs a value. */
export function sealValue(key: CrypticleKey, value: WireValue, options: SealOptions = {}): Buffer {
  return sealPacked(key, [packWire(value)], options);
}

/** Encrypts and signs a value that was packed before, in pieces that are not joined for it. */
export function sealPacked(
  key: CrypticleKey,
  packed: readonly Uint8Array[],
  options: SealOptions = {},
): Buffer {
  const nonce = Buffer.from(options.nonce ?? '', 'latin1');
  const [first = new Uint8Array(), ...others] = packed;
  // A small value is sealed in one piece; the head of a large one is small itself.
  const head =
    first.length <= sliceSize ? [Buffer.concat([prefix, nonce, first])] : [prefix, nonce, first];
  return sealPieces(key, [...head, ...others], options.iv ?? initializationVectors.take(blockSize));
}

/** Options of {@link openValue}. */
export interface OpenOptions {
  /** The nonce that the plaintext must begin with. Default: it has none. */
  readonly nonce?: string;
  /** Default: {@link loadLimits}. */
  readonly limits?: PayloadLimits;
  /** Leave all text as bytes, as minions do with files. Default: false. */
  readonly raw?: boolean;
}

/**
 * Verifies, decrypts and unpacks a value. A plaintext without Salt's prefix is an empty map, not an
 * error. Byte values are views into the plaintext.
 * @throws ProtocolError ERR_BAD_HMAC, ERR_BAD_PADDING, ERR_NONCE, ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function openValue(
  key: CrypticleKey,
  blob: Uint8Array,
  options: OpenOptions = {},
): WireValue {
  const plaintext = open(key, blob);
  if (!plaintext.subarray(0, prefix.length).equals(prefix)) return emptyWireMap();
  const packed = withoutNonce(plaintext.subarray(prefix.length), options.nonce);
  return (options.raw ? unpackRaw : unpackWire)(packed, options.limits);
}

function withoutNonce(content: Buffer, nonce: string | undefined): Buffer {
  if (nonce === undefined) return content;
  if (content.toString('latin1', 0, nonceSize) !== nonce) {
    throw new ProtocolError('ERR_NONCE', 'the answer belongs to another request');
  }
  return content.subarray(nonceSize);
}

/**
 * The minion's defence against publications that come again [WIRE 3.4]: a map with a `serial` that
 * is not greater than the last one counts as an empty map. One guard lives as long as one key.
 */
export class SerialGuard {
  #last = 0n;

  /** The value as the minion may use it: without `serial`, or empty when it came before. */
  admit(value: WireValue): WireValue {
    if (!isWireMap(value) || value.serial === undefined) return value;
    const { serial, ...rest } = value;
    const number = toInteger(serial);
    if (number === undefined || number <= this.#last) return emptyWireMap();
    this.#last = number;
    return Object.assign(emptyWireMap(), rest);
  }
}

function toInteger(value: WireValue): bigint | undefined {
  if (typeof value === 'bigint') return value;
  return typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : undefined;
}
