/**
 * Encryption and authentication of messages with AES-192-CBC and HMAC-SHA256, as in Salt [WIRE 3.4;
 * salt/crypt.py Crypticle]. The formats, with the number of bytes in parentheses:
 *
 * - A key string is the base64 of the AES key (24) and the HMAC key (32).
 * - An encrypted message is the IV (16), the ciphertext and the HMAC (32) of both.
 * - The plaintext is `pickle::`, an optional nonce (32) and the value in MessagePack.
 */

import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { WorkBudget } from '#runtime';
import { CbcChain } from './cbc-chain.ts';
import { ProtocolError } from './errors.ts';
import { HmacKey } from './hmac-key.ts';
import { packWire, unpackRaw, unpackWire } from './payload.ts';
import type { PayloadLimits } from './payload-limits.ts';
import { RandomPool } from './random-pool.ts';
import { emptyWireMap, type WireValue } from './wire-value.ts';

/**
 * An AES key and an HMAC key, parsed from a key string. They are secret: never log them. Reuse the
 * object, because each new one creates its own OpenSSL ciphers.
 */
export interface CrypticleKey {
  /** The key string, as in messages and files: 76 characters of base64. */
  readonly text: string;
  readonly cbc: CbcChain;
  readonly hmac: HmacKey;
}

const aesKeySize = 24;
const keySize = 56;
const blockSize = 16;
const hmacSize = 32;
const nonceSize = 32;
const sliceSize = 32 * 1024;
/**
 * Number of work steps that are counted for each slice of a message when the message is verified,
 * decrypted or encrypted.
 */
const stepsPerSlice = 5_000;
const prefixText = 'pickle::';
const packedNothing = packWire(emptyWireMap());
const prefix = Buffer.from(prefixText, 'latin1');
const randomBlocks = new RandomPool();
/**
 * Plaintext of the short message that is being encrypted. All messages can share this buffer,
 * because encryption is synchronous and writes its result to a new buffer.
 */
const shortMessageBuffer = Buffer.allocUnsafeSlow(sliceSize + 2 * blockSize);
/** HMAC that the message being decrypted should have. */
const expectedHmac = Buffer.allocUnsafeSlow(hmacSize);
const keyStringForm = /^[A-Za-z0-9+/]{75}=$/;

/**
 * Returns the text if it is a valid key string. Unlike {@link parseKeyString}, it does not prepare
 * the keys for use.
 * @throws ProtocolError ERR_BAD_KEY_STRING
 */
export function checkKeyString(text: string): string {
  keyBytes(text);
  return text;
}

/**
 * Parses a key string: the base64 of an AES key and an HMAC key.
 * @throws ProtocolError ERR_BAD_KEY_STRING
 */
export function parseKeyString(text: string): CrypticleKey {
  const bytes = keyBytes(text);
  const cbc = new CbcChain(bytes.subarray(0, aesKeySize));
  return { text, cbc, hmac: new HmacKey(bytes.subarray(aesKeySize)) };
}

function keyBytes(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64');
  if (!keyStringForm.test(text) || bytes.length !== keySize) {
    throw new ProtocolError(
      'ERR_BAD_KEY_STRING',
      `invalid AES key: expected 76 characters of base64, got ${text.length} characters`,
    );
  }
  return bytes;
}

/** Returns a key string with new random keys. */
export function generateKeyString(random: (size: number) => Uint8Array = randomBytes): string {
  return Buffer.from(random(keySize)).toString('base64');
}

/**
 * Returns the encrypted message: IV, ciphertext and HMAC.
 * @param random - block of 16 bytes that is encrypted into the IV. It must never repeat. Only tests
 * pass it.
 */
export function sealCrypticle(
  key: CrypticleKey,
  plaintext: Uint8Array,
  random: Uint8Array = randomBlocks.take(blockSize),
): Buffer {
  return sealPieces(key, [plaintext], random);
}

function sealPieces(key: CrypticleKey, pieces: readonly Uint8Array[], random: Uint8Array): Buffer {
  const length = lengthOf(pieces);
  return length > sliceSize
    ? runAtOnce(sealSlices(key, withPadding(pieces, length, random)))
    : sealShort(key, pieces, length, random);
}

/** Encrypts and signs a message of one slice. */
function sealShort(
  key: CrypticleKey,
  pieces: readonly Uint8Array[],
  length: number,
  random: Uint8Array,
): Buffer {
  const missing = blockSize - (length % blockSize);
  shortMessageBuffer.set(random);
  let end = random.length;
  for (const piece of pieces) {
    shortMessageBuffer.set(piece, end);
    end += piece.length;
  }
  shortMessageBuffer.fill(missing, end, end + missing);
  const encrypted = key.cbc.encrypt(shortMessageBuffer.subarray(0, end + missing));
  const blob = Buffer.allocUnsafe(encrypted.length + hmacSize);
  blob.set(encrypted);
  key.hmac.write(encrypted, blob, encrypted.length);
  return blob;
}

/** Returns a message with the random block and the padding. */
function withPadding(
  pieces: readonly Uint8Array[],
  length: number,
  random: Uint8Array,
): readonly Uint8Array[] {
  const missing = blockSize - (length % blockSize);
  return [random, ...pieces, Buffer.alloc(missing, missing)];
}

function lengthOf(pieces: readonly Uint8Array[]): number {
  let length = 0;
  for (const piece of pieces) length += piece.length;
  return length;
}

/**
 * Encrypts and signs a long message in slices that fit into the processor's cache
 * (bench/fileserver). Yields after each slice.
 */
function* sealSlices(
  key: CrypticleKey,
  message: readonly Uint8Array[],
): Generator<void, Buffer, void> {
  const blob = Buffer.allocUnsafe(lengthOf(message) + hmacSize);
  const mac = key.hmac.begin();
  const encrypt = key.cbc.createEncryption();
  let end = 0;
  for (const piece of message) {
    for (let start = 0; start < piece.length; start += sliceSize) {
      const encrypted = encrypt(piece.subarray(start, start + sliceSize));
      mac.update(encrypted);
      blob.set(encrypted, end);
      end += encrypted.length;
      yield;
    }
  }
  blob.set(mac.digest(), end);
  return blob;
}

/**
 * Returns the HMAC at the end of an encrypted message, as a view of its last 32 bytes. The HMAC
 * differs for each message and thus identifies it. This function does not verify it.
 */
export function crypticleMac(blob: Uint8Array): Buffer {
  const size = Math.min(hmacSize, blob.length);
  return Buffer.from(blob.buffer, blob.byteOffset + blob.length - size, size);
}

/**
 * Verifies and decrypts a message. The HMAC is compared first and in constant time, so that a
 * sender without the key learns nothing about padding or content.
 * @throws ProtocolError ERR_BAD_HMAC, ERR_BAD_PADDING
 */
export function openCrypticle(key: CrypticleKey, blob: Uint8Array): Buffer {
  verifyCrypticle(key, blob);
  return decryptAtOnce(key, blob);
}

/**
 * Verifies the HMAC of an encrypted message.
 * @throws ProtocolError ERR_BAD_HMAC
 */
export function verifyCrypticle(key: CrypticleKey, blob: Uint8Array): void {
  const sealed = withoutMac(blob);
  if (sealed.length <= sliceSize) verifyShort(key, sealed, blob);
  else runAtOnce(verification(key, sealed, blob));
}

/**
 * Verifies the HMAC of a long message in slices. Other work runs between the slices.
 * @throws ProtocolError ERR_BAD_HMAC
 */
export async function verifyCrypticleInSlices(
  key: CrypticleKey,
  blob: Uint8Array,
  budget: WorkBudget,
): Promise<void> {
  const sealed = withoutMac(blob);
  if (sealed.length <= sliceSize) verifyShort(key, sealed, blob);
  else await runInSlices(verification(key, sealed, blob), budget);
}

/** Verifies the HMAC of a message of one slice. */
function verifyShort(key: CrypticleKey, sealed: Uint8Array, blob: Uint8Array): void {
  key.hmac.write(sealed, expectedHmac, 0);
  compareMac(blob);
}

/** Verifies the HMAC of a message of several slices. Yields after each slice. */
function* verification(
  key: CrypticleKey,
  sealed: Uint8Array,
  blob: Uint8Array,
): Generator<void, void, void> {
  const mac = key.hmac.begin();
  for (let start = 0; start < sealed.length; start += sliceSize) {
    mac.update(sealed.subarray(start, start + sliceSize));
    yield;
  }
  expectedHmac.set(mac.digest());
  compareMac(blob);
}

/**
 * Compares the HMAC of an encrypted message with `expectedHmac`, in constant time.
 * @throws ProtocolError ERR_BAD_HMAC
 */
function compareMac(blob: Uint8Array): void {
  const received = crypticleMac(blob);
  if (received.length !== hmacSize || !timingSafeEqual(received, expectedHmac)) {
    throw new ProtocolError('ERR_BAD_HMAC', `wrong HMAC on ${blob.length} encrypted bytes`);
  }
}

/**
 * Decrypts a message whose HMAC was verified.
 * @throws ProtocolError ERR_BAD_PADDING
 */
function decryptAtOnce(key: CrypticleKey, blob: Uint8Array): Buffer {
  const sealed = wholeBlocks(blob);
  return sealed.length <= sliceSize
    ? decryptShort(key, sealed)
    : runAtOnce(decryption(key, sealed));
}

/** Decrypts a message of one slice. */
function decryptShort(key: CrypticleKey, sealed: Uint8Array): Buffer {
  return withoutPadding(key.cbc.decrypt(sealed).subarray(blockSize));
}

/** Decrypts a message of several slices. Yields after each slice. */
function* decryption(key: CrypticleKey, sealed: Uint8Array): Generator<void, Buffer, void> {
  const decrypt = key.cbc.createDecryption();
  const plaintext = Buffer.allocUnsafe(sealed.length);
  for (let start = 0; start < sealed.length; start += sliceSize) {
    plaintext.set(decrypt(sealed.subarray(start, start + sliceSize)), start);
    yield;
  }
  return withoutPadding(plaintext.subarray(blockSize));
}

/** Processes all slices of a message without pauses, and returns the result. */
function runAtOnce<T>(slices: Generator<void, T, void>): T {
  for (;;) {
    const { done, value } = slices.next();
    if (done === true) return value;
  }
}

/** Runs all slices, and resolves with the result. Other work runs between the slices. */
async function runInSlices<T>(slices: Generator<void, T, void>, budget: WorkBudget): Promise<T> {
  for (;;) {
    const { done, value } = slices.next();
    if (done === true) return value;
    await budget.giveWayAfter(stepsPerSlice);
  }
}

function withoutMac(blob: Uint8Array): Uint8Array {
  return blob.subarray(0, Math.max(0, blob.length - hmacSize));
}

/**
 * Returns the IV and the ciphertext of a message.
 * @throws ProtocolError ERR_BAD_PADDING
 */
function wholeBlocks(blob: Uint8Array): Uint8Array {
  const sealed = withoutMac(blob);
  // A partial block would stay in the cipher and corrupt the next message.
  if (sealed.length < 2 * blockSize || sealed.length % blockSize !== 0) throw badPadding();
  return sealed;
}

function withoutPadding(padded: Buffer): Buffer {
  const count = padded.at(-1) ?? 0;
  const end = padded.length - count;
  if (count === 0 || count > blockSize) throw badPadding();
  for (let index = Math.max(0, end); index < padded.length; index += 1) {
    if (padded[index] !== count) throw badPadding();
  }
  return padded.subarray(0, end);
}

function badPadding(): ProtocolError {
  return new ProtocolError(
    'ERR_BAD_PADDING',
    'the HMAC of an encrypted message matches, but its padding is not valid',
  );
}

/** Options of {@link sealValue}. */
export interface SealValueOptions {
  /** Nonce of 32 characters. Only replies of protocol versions 2 and 3 have one. */
  readonly nonce?: string;
  /** Random block of 16 bytes that is encrypted into the IV. Only tests pass it. */
  readonly random?: Uint8Array;
}

/** Packs, encrypts and signs a value. */
export function sealValue(
  key: CrypticleKey,
  value: WireValue,
  options: SealValueOptions = {},
): Buffer {
  return sealPacked(key, [packWire(value)], options);
}

/**
 * Encrypts and signs a value in MessagePack.
 * @param packed - the packed value, divided into one or more arrays
 */
export function sealPacked(
  key: CrypticleKey,
  packed: readonly Uint8Array[],
  options: SealValueOptions = {},
): Buffer {
  const pieces = withPrefix(packed, options);
  return sealPieces(key, pieces, options.random ?? randomBlocks.take(blockSize));
}

/**
 * Encrypts and signs a value like {@link sealPacked}, in slices. Other work runs between the slices.
 */
export async function sealPackedInSlices(
  key: CrypticleKey,
  packed: readonly Uint8Array[],
  budget: WorkBudget,
  options: SealValueOptions = {},
): Promise<Buffer> {
  const pieces = withPrefix(packed, options);
  const random = options.random ?? randomBlocks.take(blockSize);
  const length = lengthOf(pieces);
  return length > sliceSize
    ? runInSlices(sealSlices(key, withPadding(pieces, length, random)), budget)
    : sealShort(key, pieces, length, random);
}

/** Returns the plaintext of a packed value: Salt's prefix, the nonce, and the value. */
function withPrefix(
  packed: readonly Uint8Array[],
  { nonce }: SealValueOptions,
): readonly Uint8Array[] {
  return nonce === undefined
    ? [prefix, ...packed]
    : [prefix, Buffer.from(nonce, 'latin1'), ...packed];
}

/** Options of {@link openValue}. */
export interface OpenValueOptions {
  /** Required nonce at the beginning of the plaintext. Default: the plaintext contains no nonce. */
  readonly nonce?: string;
  /** Limits for unpacking. Default: {@link loadLimits}. */
  readonly limits?: PayloadLimits;
  /**
   * Whether every text is returned as bytes. Minions read file content in this way. Default:
   * `false`.
   */
  readonly raw?: boolean;
}

/**
 * Verifies, decrypts and unpacks a value. Returns an empty map if the plaintext lacks Salt's prefix
 * `pickle::`. Byte values are views of the plaintext.
 * @throws ProtocolError ERR_BAD_HMAC, ERR_BAD_PADDING, ERR_NONCE, ERR_BAD_PAYLOAD,
 * ERR_PAYLOAD_LIMIT
 */
export function openValue(
  key: CrypticleKey,
  blob: Uint8Array,
  options: OpenValueOptions = {},
): WireValue {
  const content = withoutPrefix(openCrypticle(key, blob));
  if (content === packedNothing) return emptyWireMap();
  const packed = withoutNonce(content, options.nonce);
  return (options.raw ? unpackRaw : unpackWire)(packed, options.limits);
}

/**
 * Decrypts a value whose HMAC was verified, and returns its packed form.
 * @throws ProtocolError ERR_BAD_PADDING
 */
export function decryptPacked(key: CrypticleKey, blob: Uint8Array): Buffer {
  return withoutPrefix(decryptAtOnce(key, blob));
}

/**
 * Decrypts a value like {@link decryptPacked}, in slices. Other work runs between the slices.
 * @throws ProtocolError ERR_BAD_PADDING
 */
export async function decryptPackedInSlices(
  key: CrypticleKey,
  blob: Uint8Array,
  budget: WorkBudget,
): Promise<Buffer> {
  const sealed = wholeBlocks(blob);
  return withoutPrefix(
    sealed.length <= sliceSize
      ? decryptShort(key, sealed)
      : await runInSlices(decryption(key, sealed), budget),
  );
}

function withoutPrefix(plaintext: Buffer): Buffer {
  const hasPrefix = plaintext.toString('latin1', 0, prefix.length) === prefixText;
  return hasPrefix ? plaintext.subarray(prefix.length) : packedNothing;
}

function withoutNonce(content: Buffer, nonce: string | undefined): Buffer {
  if (nonce === undefined) return content;
  if (content.toString('latin1', 0, nonceSize) !== nonce) {
    throw new ProtocolError('ERR_NONCE', 'the nonce of the reply does not match the request');
  }
  return content.subarray(nonceSize);
}
