/**
 * Signatures with message recovery: RSA with the padding of ANSI X9.31 and no hash [WIRE 3.3;
 * salt/crypt.py, salt/utils/rsax931.py].
 *
 * padded  6B ‖ BB … BB ‖ BA ‖ message ‖ CC       as long as the modulus
 * padded  6A ‖ message ‖ CC                      when the message leaves no room
 */

import {
  constants,
  createPublicKey,
  type KeyObject,
  privateEncrypt,
  publicDecrypt,
  timingSafeEqual,
} from 'node:crypto';
import { modulus } from './rsa-keys.ts';

const minionTokenText = Buffer.from('salt', 'latin1');
const trailer = 0xcc;

/**
 * Signs a message.
 * @throws RangeError if the message is longer than the modulus minus two bytes
 */
export function x931Sign(privateKey: KeyObject, message: Uint8Array): Buffer {
  const size = modulusBytes(privateKey);
  const padded = pad(message, size);
  const power = toInteger(
    privateEncrypt({ key: privateKey, padding: constants.RSA_NO_PADDING }, padded),
  );
  const n = modulus(createPublicKey(privateKey));
  return toBytes(2n * power < n ? power : n - power, size);
}

/** Returns the signed message, or `undefined` if another key created the signature. */
export function x931Recover(publicKey: KeyObject, signature: Uint8Array): Buffer | undefined {
  const size = modulusBytes(publicKey);
  const n = modulus(publicKey);
  if (signature.length !== size || toInteger(signature) >= n) return undefined;
  const padding = constants.RSA_NO_PADDING;
  const power = toInteger(publicDecrypt({ key: publicKey, padding }, signature));
  // A signature is the smaller one of two numbers. In about half of the cases, the other number
  // must be used.
  return unpad(toBytes(power % 16n === 12n ? power : n - power, size));
}

/** Returns the token (`tok`) of a minion. It is constant for a key, so cache it. */
export function minionToken(privateKey: KeyObject): Buffer {
  return x931Sign(privateKey, minionTokenText);
}

/**
 * Whether `tok`, the token of a request, was created with the private key that belongs to this
 * public key.
 */
export function isMinionToken(publicKey: KeyObject, tok: Uint8Array): boolean {
  const message = x931Recover(publicKey, tok);
  return message?.length === minionTokenText.length && timingSafeEqual(message, minionTokenText);
}

function pad(message: Uint8Array, size: number): Buffer {
  const filler = size - message.length - 3;
  if (filler < -1)
    throw new RangeError(
      `cannot sign a message of ${message.length} bytes: it is too long for the key`,
    );
  const head = Buffer.alloc(filler + 2, 0xbb);
  head[0] = filler < 0 ? 0x6a : 0x6b;
  if (filler >= 0) head[filler + 1] = 0xba;
  return Buffer.concat([head, message, Buffer.of(trailer)]);
}

function unpad(padded: Buffer): Buffer | undefined {
  if (padded.at(-1) !== trailer) return undefined;
  if (padded[0] === 0x6a) return padded.subarray(1, -1);
  let index = 1;
  while (padded[index] === 0xbb) index += 1;
  if (padded[0] !== 0x6b || padded[index] !== 0xba) return undefined;
  return padded.subarray(index + 1, -1);
}

function modulusBytes(key: KeyObject): number {
  return Math.ceil((key.asymmetricKeyDetails?.modulusLength ?? 0) / 8);
}

function toInteger(bytes: Uint8Array): bigint {
  return BigInt(`0x0${Buffer.from(bytes).toString('hex')}`);
}

function toBytes(value: bigint, size: number): Buffer {
  return Buffer.from(value.toString(16).padStart(2 * size, '0'), 'hex');
}
