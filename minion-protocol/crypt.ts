/** Salt's cryptography: RSA, and AES with HMAC [WIRE 3; salt/crypt.py]. No I/O. */

import {
  type Cipher,
  constants,
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  sign as cryptoSign,
  verify as cryptoVerify,
  type Decipher,
  generateKeyPair as generatePair,
  type Hmac,
  hash,
  type KeyObject,
  privateDecrypt,
  privateEncrypt,
  publicDecrypt,
  publicEncrypt,
  randomBytes,
  randomFillSync,
  timingSafeEqual,
} from 'node:crypto';
import { promisify } from 'node:util';
import { ProtocolError } from './errors.ts';
import {
  emptyWireMap,
  isWireMap,
  type PayloadLimits,
  packWire,
  unpackRaw,
  unpackWire,
  type WireValue,
} from './payload.ts';

// RSA by Salt's algorithm names [WIRE 3.2; salt/crypt.py]. All functions are synchronous and slow
// (a private operation takes most of a millisecond): a master runs them in worker threads.

/** How keys and tokens are encrypted: RSA-OAEP, hash and MGF1 hash both as named, no label. */
export type EncryptionAlgorithm = 'OAEP-SHA1' | 'OAEP-SHA224';

/** How replies and publications are signed: RSASSA-PKCS1-v1_5. */
export type SigningAlgorithm = 'PKCS1v15-SHA1' | 'PKCS1v15-SHA224';

/** Where a request names no algorithm. */
export const defaultEncryptionAlgorithm: EncryptionAlgorithm = 'OAEP-SHA1';
export const defaultSigningAlgorithm: SigningAlgorithm = 'PKCS1v15-SHA1';

export function isEncryptionAlgorithm(name: unknown): name is EncryptionAlgorithm {
  return name === 'OAEP-SHA1' || name === 'OAEP-SHA224';
}

export function isSigningAlgorithm(name: unknown): name is SigningAlgorithm {
  return name === 'PKCS1v15-SHA1' || name === 'PKCS1v15-SHA224';
}

function oaep(key: KeyObject, algorithm: EncryptionAlgorithm) {
  const oaepHash = algorithm === 'OAEP-SHA1' ? 'sha1' : 'sha224';
  return { key, oaepHash, padding: constants.RSA_PKCS1_OAEP_PADDING };
}

function signatureHash(algorithm: SigningAlgorithm): string {
  return algorithm === 'PKCS1v15-SHA1' ? 'sha1' : 'sha224';
}

/** Encrypts at most 198 bytes (2048 bit key, SHA-224). */
export function rsaEncrypt(
  publicKey: KeyObject,
  bytes: Uint8Array,
  algorithm: EncryptionAlgorithm,
): Buffer {
  return publicEncrypt(oaep(publicKey, algorithm), bytes);
}

/** @throws ProtocolError ERR_DECRYPT */
export function rsaDecrypt(
  privateKey: KeyObject,
  bytes: Uint8Array,
  algorithm: EncryptionAlgorithm,
): Buffer {
  try {
    return privateDecrypt(oaep(privateKey, algorithm), bytes);
  } catch (cause) {
    throw new ProtocolError('ERR_DECRYPT', `${bytes.length} bytes do not decrypt`, { cause });
  }
}

export function rsaSign(
  privateKey: KeyObject,
  bytes: Uint8Array,
  algorithm: SigningAlgorithm,
): Buffer {
  return cryptoSign(signatureHash(algorithm), bytes, privateKey);
}

/** Whether `signature` is one of `bytes` by the owner of the key. Never throws. */
export function rsaVerify(
  publicKey: KeyObject,
  bytes: Uint8Array,
  signature: Uint8Array,
  algorithm: SigningAlgorithm,
): boolean {
  return cryptoVerify(signatureHash(algorithm), bytes, publicKey, signature);
}

// RSA keys as Salt writes them: made, read, judged and named [WIRE 3.1, 7.7; THREATS C-04].

const generatePairAsync = promisify(generatePair);

const maxTextLength = 16 * 1024;
const minBits = 2048;
const maxBits = 8192;
const minExponent = 65_537n;
/** OpenSSL's own bound for large moduli; keeps verifying as cheap for odd keys as for sound ones. */
const maxExponentBits = 64n;
const publicKeyForm =
  /^-----BEGIN (RSA )?PUBLIC KEY-----\n([A-Za-z0-9+/=\n]+)\n-----END (RSA )?PUBLIC KEY-----$/;
const hashTypes: readonly string[] = ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'];

/**
 * The text of a key with white space around it removed, LF line ends, and no final LF: what minions
 * compare exactly [salt/crypt.py clean_key].
 */
export function cleanKeyText(pem: string): string {
  return pem.trim().replace(/\r\n?/g, '\n');
}

/**
 * The fingerprint that `salt-key -F` prints, of a public or a private key: a digest of the base64
 * *text* between the first and the last line [salt/utils/crypt.py pem_finger].
 * @throws TypeError when `hashType` is none of md5, sha1, sha224, sha256, sha384, sha512
 */
export function keyFingerprint(pem: string, hashType = 'sha256'): string {
  if (!hashTypes.includes(hashType)) throw new TypeError(`unknown hash type ${hashType}`);
  const lines = pem.split(/\r\n?|\n/).filter((line) => line.trim() !== '');
  const body = lines.slice(1, -1).map((line) => `${line}\n`);
  const digest = createHash(hashType).update(body.join('')).digest('hex');
  return digest.replace(/(..)(?=.)/g, '$1:');
}

/**
 * Reads an RSA public key, SubjectPublicKeyInfo or PKCS#1, and judges it: 2048 to 8192 bits, odd
 * modulus, odd exponent of at least 65537, nothing before, behind or between. The cheap checks come
 * first, because strangers send keys.
 * @throws ProtocolError ERR_BAD_KEY
 */
export function parsePublicKey(pem: string): KeyObject {
  if (pem.length > maxTextLength) throw badKey(`${pem.length} characters`);
  const match = publicKeyForm.exec(cleanKeyText(pem));
  const [, begin, base64 = '', end] = match ?? [];
  if (!match || begin !== end) throw badKey('not one PEM block of a public key');
  const type = begin === undefined ? 'spki' : 'pkcs1';
  const der = Buffer.from(base64, 'base64');
  const key = importKey(() => createPublicKey({ key: der, format: 'der', type }));
  checkKeyStrength(key);
  if (!canonical(key).export({ format: 'der', type }).equals(der)) {
    throw badKey('more than a key inside');
  }
  return key;
}

/** The same key from its numbers alone. (Node 24 cannot export one that was read as PKCS#1.) */
function canonical(key: KeyObject): KeyObject {
  return createPublicKey({ key: key.export({ format: 'jwk' }), format: 'jwk' });
}

/**
 * Reads an RSA private key, PKCS#1 or PKCS#8, judged like a public one.
 * @throws ProtocolError ERR_BAD_KEY, also for a wrong or missing passphrase
 */
export function parsePrivateKey(pem: string, passphrase?: string): KeyObject {
  if (pem.length > maxTextLength) throw badKey(`${pem.length} characters`);
  const options = passphrase === undefined ? {} : { passphrase };
  const key = importKey(() => createPrivateKey({ key: pem, format: 'pem', ...options }));
  checkKeyStrength(key);
  return key;
}

function importKey(read: () => KeyObject): KeyObject {
  try {
    return read();
  } catch (cause) {
    throw new ProtocolError('ERR_BAD_KEY', 'unusable key: cannot be read', { cause });
  }
}

// protection: weak-keys
function checkKeyStrength(key: KeyObject): void {
  if (key.asymmetricKeyType !== 'rsa') throw badKey('not RSA');
  const { modulusLength = 0, publicExponent = 0n } = key.asymmetricKeyDetails ?? {};
  if (modulusLength < minBits || modulusLength > maxBits) throw badKey(`${modulusLength} bits`);
  if (publicExponent < minExponent || publicExponent % 2n === 0n) throw badKey('weak exponent');
  if (publicExponent >> maxExponentBits > 0n) throw badKey('giant exponent');
  if (modulus(key) % 2n === 0n) throw badKey('even modulus');
}

/** The modulus of an RSA key, public or private. */
function modulus(key: KeyObject): bigint {
  const { n = '' } = key.export({ format: 'jwk' });
  return BigInt(`0x0${Buffer.from(n, 'base64url').toString('hex')}`);
}

function badKey(what: string): ProtocolError {
  return new ProtocolError('ERR_BAD_KEY', `unusable key: ${what}`);
}

/** A key pair as the texts of Salt's files, each with a final LF. */
export interface KeyPairText {
  /** PKCS#1, "RSA PRIVATE KEY"; with a passphrase PKCS#8, "ENCRYPTED PRIVATE KEY". */
  readonly privatePem: string;
  /** SubjectPublicKeyInfo, "PUBLIC KEY", 64 characters a line. */
  readonly publicPem: string;
}

/**
 * Makes a key pair with exponent 65537.
 * @param passphrase - encrypts the private key
 * @throws RangeError unless 2048 to 8192 bits
 */
export async function generateKeyPair(bits: number, passphrase?: string): Promise<KeyPairText> {
  if (!(bits >= minBits && bits <= maxBits)) {
    throw new RangeError(`keysize ${bits}, expected ${minBits} to ${maxBits}`);
  }
  const pair = await generatePairAsync('rsa', {
    modulusLength: bits,
    publicExponent: Number(minExponent),
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding:
      passphrase === undefined
        ? { type: 'pkcs1', format: 'pem' }
        : { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase },
  });
  return { privatePem: pair.privateKey, publicPem: pair.publicKey };
}

// Signatures with message recovery: RSA with the padding of ANSI X9.31 and no hash [WIRE 3.3;
// salt/crypt.py, salt/utils/rsax931.py].
//
// padded  6B ‖ BB … BB ‖ BA ‖ message ‖ CC       as long as the modulus
// padded  6A ‖ message ‖ CC                      when the message leaves no room

const minionTokenText = Buffer.from('salt', 'latin1');
const trailer = 0xcc;

/** @throws RangeError when the message is longer than the modulus less two bytes */
export function x931Sign(privateKey: KeyObject, message: Uint8Array): Buffer {
  const size = modulusBytes(privateKey);
  const padded = pad(message, size);
  const power = toInteger(
    privateEncrypt({ key: privateKey, padding: constants.RSA_NO_PADDING }, padded),
  );
  const n = modulus(createPublicKey(privateKey));
  return toBytes(2n * power < n ? power : n - power, size);
}

/** The message that was signed, or `undefined` when it is no signature by this key. */
export function x931Recover(publicKey: KeyObject, signature: Uint8Array): Buffer | undefined {
  const size = modulusBytes(publicKey);
  const n = modulus(publicKey);
  if (signature.length !== size || toInteger(signature) >= n) return undefined;
  const padding = constants.RSA_NO_PADDING;
  const power = toInteger(publicDecrypt({ key: publicKey, padding }, signature));
  // About half of all signatures are the smaller one of a pair, and need the mirror image.
  return unpad(toBytes(power % 16n === 12n ? power : n - power, size));
}

/** The `tok` of a minion: constant for its key, so it is worth keeping. */
export function minionToken(privateKey: KeyObject): Buffer {
  return x931Sign(privateKey, minionTokenText);
}

/** Whether `tok` was made by the owner of this key. */
export function isMinionToken(publicKey: KeyObject, tok: Uint8Array): boolean {
  const message = x931Recover(publicKey, tok);
  return message?.length === minionTokenText.length && timingSafeEqual(message, minionTokenText);
}

function pad(message: Uint8Array, size: number): Buffer {
  const filler = size - message.length - 3;
  if (filler < -1) throw new RangeError(`a message of ${message.length} bytes, too long to sign`);
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

// AES-192-CBC with HMAC-SHA256, as Salt pads and signs it [WIRE 3.4; salt/crypt.py Crypticle].
//
//     key string  base64 of  AES key (24) ‖ HMAC key (32)
//     blob        IV (16) ‖ ciphertext ‖ HMAC of what comes before (32)
//     plaintext   "pickle::" ‖ [nonce, 32 characters] ‖ packed value

// AES-192-CBC under one key, message after message [NIST SP 800-38A 6.2].

const cbcAlgorithm = 'aes-192-cbc';
const zeroBlock = Buffer.alloc(16);

/**
 * Keeps OpenSSL's objects: making one for each message takes longer than encrypting a request. The
 * chain goes on from one message to the next, which both directions allow for. A random block is
 * encrypted before the message, and what comes out is an IV that is just as random; a message's own
 * IV is decrypted before it, and what comes out means nothing.
 */
class CbcChain {
  /** Latin1 text, which takes less memory than bytes. */
  readonly #key: string;
  #cipher: Cipher | undefined;
  #decipher: Decipher | undefined;

  /** @param key 24 bytes; copied */
  constructor(key: Uint8Array) {
    this.#key = Buffer.from(key).toString('latin1');
  }

  /** @param blocks of a message whose first piece began with a random block; whole at its end */
  encrypt(blocks: Uint8Array): Buffer {
    this.#cipher ??= createCipheriv(cbcAlgorithm, this.#bytes(), zeroBlock).setAutoPadding(false);
    return this.#cipher.update(blocks);
  }

  /** @param blocks IV and ciphertext, a multiple of 16 bytes @returns as much, nonsense first */
  decrypt(blocks: Uint8Array): Buffer {
    this.#decipher ??= createDecipheriv(cbcAlgorithm, this.#bytes(), zeroBlock).setAutoPadding(
      false,
    );
    return this.#decipher.update(blocks);
  }

  #bytes(): Buffer {
    return Buffer.from(this.#key, 'latin1');
  }
}

// HMAC-SHA256 under one key [RFC 2104].

const hashBlockSize = 64;
const digestSize = 32;
const innerPad = 0x36;
const outerPad = 0x5c;
/** Bytes up to which the copy that two hashes need costs less than an object of OpenSSL's. */
const shortSize = 4096;

/** What the two hashes are of, one after the other: nothing is allocated for a message. */
const innerBuffer = Buffer.allocUnsafeSlow(hashBlockSize + shortSize);
const outerBuffer = Buffer.allocUnsafeSlow(hashBlockSize + digestSize);
const blockBuffer = Buffer.allocUnsafeSlow(hashBlockSize);

/** Makes HMACs; what is short takes two hashes instead of an object for each message. */
export class HmacKey {
  /** The key over one block, as latin1 text: a third of the memory that bytes take. */
  readonly #inner: string;
  readonly #outer: string;

  /** @param key at most 64 bytes; copied */
  constructor(key: Uint8Array) {
    if (key.length > hashBlockSize) throw new RangeError(`an HMAC key of ${key.length} bytes`);
    this.#inner = blockOf(key, innerPad);
    this.#outer = blockOf(key, outerPad);
  }

  /** Writes the HMAC of all of `bytes`, 32 bytes from `offset` on. */
  write(bytes: Uint8Array, target: Buffer, offset: number): void {
    if (bytes.length > shortSize) {
      target.set(this.begin().update(bytes).digest(), offset);
      return;
    }
    innerBuffer.write(this.#inner, 'latin1');
    innerBuffer.set(bytes, hashBlockSize);
    const inner = hash('sha256', innerBuffer.subarray(0, hashBlockSize + bytes.length), 'binary');
    outerBuffer.write(this.#outer, 'latin1');
    outerBuffer.write(inner, hashBlockSize, 'latin1');
    target.write(hash('sha256', outerBuffer, 'binary'), offset, 'latin1');
  }

  /** Of what comes in parts. */
  begin(): Hmac {
    const key = blockOf(Buffer.from(this.#inner, 'latin1'), innerPad);
    return createHmac('sha256', Buffer.from(key, 'latin1'));
  }
}

/** The key, with zeros behind it up to the size of a block, and `pad` over each byte. */
function blockOf(key: Uint8Array, pad: number): string {
  blockBuffer.fill(pad);
  key.forEach((byte, index) => {
    blockBuffer[index] = byte ^ pad;
  });
  return blockBuffer.toString('latin1');
}

const poolSize = 4096;

/**
 * Random bytes, a few at a time: asking the system for 16 of them costs more than encrypting a
 * short message, so a page of them is asked for at once. None is given out twice.
 */
export class RandomPool {
  #pool = Buffer.alloc(0);

  /** @param size - bytes, few of a page */
  take(size: number): Buffer {
    if (this.#pool.length < size) this.#pool = randomFillSync(Buffer.allocUnsafeSlow(poolSize));
    const taken = this.#pool.subarray(0, size);
    this.#pool = this.#pool.subarray(size);
    return taken;
  }
}

/** A key string and what is in it. Secret: never log it. Kept, it is quicker than a new one. */
export interface CrypticleKey {
  /** 76 characters of base64, as it travels and as it lies in files. */
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
const prefixText = 'pickle::';
const packedNothing = packWire(emptyWireMap());
const prefix = Buffer.from(prefixText, 'latin1');
const randomBlocks = new RandomPool();
/** Where short messages are put together; each is out of it before the next one. */
const shortMessageBuffer = Buffer.allocUnsafeSlow(sliceSize + 2 * blockSize);
const expectedHmac = Buffer.allocUnsafeSlow(hmacSize);
const keyStringForm = /^[A-Za-z0-9+/]{75}=$/;

/** The text, if it is a key string: nothing is made ready. @throws ProtocolError ERR_BAD_KEY_STRING */
export function checkKeyString(text: string): string {
  keyBytes(text);
  return text;
}

/** @throws ProtocolError ERR_BAD_KEY_STRING */
export function parseKeyString(text: string): CrypticleKey {
  const bytes = keyBytes(text);
  const cbc = new CbcChain(bytes.subarray(0, aesKeySize));
  return { text, cbc, hmac: new HmacKey(bytes.subarray(aesKeySize)) };
}

function keyBytes(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64');
  if (!keyStringForm.test(text) || bytes.length !== keySize) {
    throw new ProtocolError('ERR_BAD_KEY_STRING', `not a key string: ${text.length} characters`);
  }
  return bytes;
}

/** A new key string. */
export function generateKeyString(random: (size: number) => Uint8Array = randomBytes): string {
  return Buffer.from(random(keySize)).toString('base64');
}

/** Encrypts and signs. `random` (16 bytes) is for tests only: it must never be used twice. */
export function sealCrypticle(
  key: CrypticleKey,
  plaintext: Uint8Array,
  random: Uint8Array = randomBlocks.take(blockSize),
): Buffer {
  return sealPieces(key, [plaintext], random);
}

function sealPieces(key: CrypticleKey, pieces: readonly Uint8Array[], random: Uint8Array): Buffer {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const missing = blockSize - (length % blockSize);
  if (length > sliceSize) {
    return sealSlices(key, [random, ...pieces, Buffer.alloc(missing, missing)]);
  }
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

/** Each slice is encrypted and signed while it is in the processor's cache (bench/fileserver). */
function sealSlices(key: CrypticleKey, message: readonly Uint8Array[]): Buffer {
  const length = message.reduce((sum, piece) => sum + piece.length, 0);
  const blob = Buffer.allocUnsafe(length + hmacSize);
  const mac = key.hmac.begin();
  let end = 0;
  for (const piece of message) {
    for (let start = 0; start < piece.length; start += sliceSize) {
      const encrypted = key.cbc.encrypt(piece.subarray(start, start + sliceSize));
      mac.update(encrypted);
      blob.set(encrypted, end);
      end += encrypted.length;
    }
  }
  blob.set(mac.digest(), end);
  return blob;
}

/** The HMAC at the end of a blob, a view; without a meaning before the blob was opened. */
export function crypticleMac(blob: Uint8Array): Buffer {
  const size = Math.min(hmacSize, blob.length);
  return Buffer.from(blob.buffer, blob.byteOffset + blob.length - size, size);
}

/**
 * Verifies and decrypts a blob. The HMAC comes first and is compared in constant time, so that
 * nothing about padding or content shows to somebody without the key.
 * @throws ProtocolError ERR_BAD_HMAC, ERR_BAD_PADDING
 */
export function openCrypticle(key: CrypticleKey, blob: Uint8Array): Buffer {
  const sealed = blob.subarray(0, Math.max(0, blob.length - hmacSize));
  const received = crypticleMac(blob);
  key.hmac.write(sealed, expectedHmac, 0);
  // protection: mac-unchecked
  if (received.length !== hmacSize || !timingSafeEqual(received, expectedHmac)) {
    throw new ProtocolError('ERR_BAD_HMAC', `wrong HMAC on a blob of ${blob.length} bytes`);
  }
  // Part of a block would stay behind, and go before the next message.
  // protection: partial-blocks
  if (sealed.length < 2 * blockSize || sealed.length % blockSize !== 0) throw badPadding();
  return withoutPadding(key.cbc.decrypt(sealed).subarray(blockSize));
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
  return new ProtocolError('ERR_BAD_PADDING', 'signed ciphertext does not decrypt');
}

/** Options of {@link sealValue}. */
export interface SealValueOptions {
  /** 32 characters, in replies of protocol versions 2 and 3 only. */
  readonly nonce?: string;
  /** 16 bytes, for tests only. */
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

/** Encrypts and signs a value that was packed before, in pieces that are not joined for it. */
export function sealPacked(
  key: CrypticleKey,
  packed: readonly Uint8Array[],
  options: SealValueOptions = {},
): Buffer {
  const nonce = Buffer.from(options.nonce ?? '', 'latin1');
  const { random = randomBlocks.take(blockSize) } = options;
  return sealPieces(key, [prefix, nonce, ...packed], random);
}

/** Options of {@link openValue}. */
export interface OpenValueOptions {
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
  options: OpenValueOptions = {},
): WireValue {
  return openPacked(key, blob, options).value;
}

/** The same, with the value as it came: packed, and a view into the plaintext. */
export function openPacked(
  key: CrypticleKey,
  blob: Uint8Array,
  options: OpenValueOptions = {},
): { readonly value: WireValue; readonly packed: Uint8Array } {
  const plaintext = openCrypticle(key, blob);
  if (plaintext.toString('latin1', 0, prefix.length) !== prefixText) {
    return { value: emptyWireMap(), packed: packedNothing };
  }
  const packed = withoutNonce(plaintext.subarray(prefix.length), options.nonce);
  // protection: limits-inside
  const value = (options.raw ? unpackRaw : unpackWire)(packed, options.limits);
  return { value, packed };
}

function withoutNonce(content: Buffer, nonce: string | undefined): Buffer {
  if (nonce === undefined) return content;
  // protection: replies-of-others
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
    const number = serialOf(serial);
    if (number === undefined || number <= this.#last) return emptyWireMap();
    this.#last = number;
    return Object.assign(emptyWireMap(), rest);
  }
}

function serialOf(value: WireValue): bigint | undefined {
  if (typeof value === 'bigint') return value;
  return typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : undefined;
}
