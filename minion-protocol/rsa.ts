/**
 * RSA by Salt's algorithm names [WIRE 3.2; salt/crypt.py]. All functions are synchronous and slow
 * (a private operation takes most of a millisecond): a master runs them in worker threads.
 */

import {
  constants,
  createHash,
  createPrivateKey,
  createPublicKey,
  sign as cryptoSign,
  verify as cryptoVerify,
  generateKeyPair as generatePair,
  type KeyObject,
  privateDecrypt,
  privateEncrypt,
  publicDecrypt,
  publicEncrypt,
  timingSafeEqual,
} from 'node:crypto';
import { promisify } from 'node:util';
import { ProtocolError } from './errors.ts';

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
