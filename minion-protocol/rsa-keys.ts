/**
 * RSA keys in Salt's file formats: generates, parses and checks them, and computes fingerprints
 * [WIRE 3.1, 7.7; THREATS C-04].
 */

import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPair as generatePair,
  generateKeyPairSync as generatePairSync,
  type KeyObject,
  type RSAKeyPairOptions,
} from 'node:crypto';
import { promisify } from 'node:util';
import { ProtocolError } from './errors.ts';

const generatePairAsync = promisify(generatePair);

const maxTextLength = 16 * 1024;
const minBits = 2048;
const maxBits = 8192;
const minExponent = 65_537n;
/**
 * Maximum size of the exponent, in bits. OpenSSL has the same limit for large moduli. It limits the
 * cost of verifying a signature.
 */
const maxExponentBits = 64n;
const publicKeyForm =
  /^-----BEGIN (RSA )?PUBLIC KEY-----\n([A-Za-z0-9+/=\n]+)\n-----END (RSA )?PUBLIC KEY-----$/;
const hashTypes: readonly string[] = ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'];

/**
 * Returns the text of a key without surrounding white space, with LF line ends and no final LF.
 * Minions compare this form exactly [salt/crypt.py clean_key].
 */
export function cleanKeyText(pem: string): string {
  return pem.trim().replace(/\r\n?/g, '\n');
}

/**
 * Returns the fingerprint of a public or private key as `salt-key -F` prints it: a digest of the
 * base64 *text* between the first and the last line [salt/utils/crypt.py pem_finger].
 * @throws TypeError if `hashType` is none of md5, sha1, sha224, sha256, sha384, sha512
 */
export function keyFingerprint(pem: string, hashType = 'sha256'): string {
  if (!hashTypes.includes(hashType))
    throw new TypeError(`unknown hash type ${hashType}; use one of ${hashTypes.join(', ')}`);
  const lines = pem.split(/\r\n?|\n/).filter((line) => line.trim() !== '');
  const body = lines.slice(1, -1).map((line) => `${line}\n`);
  const digest = createHash(hashType).update(body.join('')).digest('hex');
  return digest.replace(/(..)(?=.)/g, '$1:');
}

/**
 * Parses an RSA public key, SubjectPublicKeyInfo or PKCS#1, and checks it: 2048 to 8192 bits, odd
 * modulus, odd exponent of at least 65537, and no extra bytes. The cheap checks come first, so that
 * unauthenticated peers, which also send keys, cause little work.
 * @throws ProtocolError ERR_BAD_KEY
 */
export function parsePublicKey(pem: string): KeyObject {
  if (pem.length > maxTextLength) throw badKey(`${pem.length} characters`);
  const match = publicKeyForm.exec(cleanKeyText(pem));
  const [, begin, base64 = '', end] = match ?? [];
  if (!match || begin !== end) throw badKey('it is not a single PEM block of a public key');
  const type = begin === undefined ? 'spki' : 'pkcs1';
  const der = Buffer.from(base64, 'base64');
  const key = importKey(() => createPublicKey({ key: der, format: 'der', type }));
  checkKeyStrength(key);
  if (!canonical(key).export({ format: 'der', type }).equals(der)) {
    throw badKey('the PEM block contains data after the key');
  }
  return key;
}

/**
 * Returns the same key, created again from its modulus and exponent, because Node.js 24 cannot
 * export a key that was read as PKCS#1.
 */
function canonical(key: KeyObject): KeyObject {
  return createPublicKey({ key: key.export({ format: 'jwk' }), format: 'jwk' });
}

/**
 * Parses an RSA private key, PKCS#1 or PKCS#8, and checks it like a public key.
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
    throw new ProtocolError('ERR_BAD_KEY', 'unusable key: it cannot be parsed', { cause });
  }
}

function checkKeyStrength(key: KeyObject): void {
  if (key.asymmetricKeyType !== 'rsa') throw badKey('it is not an RSA key');
  const { modulusLength = 0, publicExponent = 0n } = key.asymmetricKeyDetails ?? {};
  if (modulusLength < minBits || modulusLength > maxBits) throw badKey(`${modulusLength} bits`);
  if (publicExponent < minExponent || publicExponent % 2n === 0n) throw badKey('weak exponent');
  if (publicExponent >> maxExponentBits > 0n) throw badKey('giant exponent');
  if (modulus(key) % 2n === 0n) throw badKey('even modulus');
}

/** Returns the modulus of a public or private RSA key. */
export function modulus(key: KeyObject): bigint {
  const { n = '' } = key.export({ format: 'jwk' });
  return BigInt(`0x0${Buffer.from(n, 'base64url').toString('hex')}`);
}

function badKey(what: string): ProtocolError {
  return new ProtocolError('ERR_BAD_KEY', `unusable key: ${what}`);
}

/** A key pair in the text form of Salt's files, each with a final LF. */
export interface KeyPairText {
  /** PKCS#1 (`RSA PRIVATE KEY`), or PKCS#8 (`ENCRYPTED PRIVATE KEY`) if there is a passphrase. */
  readonly privatePem: string;
  /** SubjectPublicKeyInfo (`PUBLIC KEY`), 64 characters per line. */
  readonly publicPem: string;
}

/**
 * Generates a key pair with exponent 65537.
 * @param passphrase - encrypts the private key
 * @throws RangeError unless `bits` is between 2048 and 8192
 */
export async function generateKeyPair(bits: number, passphrase?: string): Promise<KeyPairText> {
  const pair = await generatePairAsync('rsa', pairOptions(bits, passphrase));
  return { privatePem: pair.privateKey, publicPem: pair.publicKey };
}

/**
 * Generates a key pair like {@link generateKeyPair}, in the calling thread.
 * @throws RangeError unless `bits` is between 2048 and 8192
 */
export function generateKeyPairSync(bits: number): KeyPairText {
  const pair = generatePairSync('rsa', pairOptions(bits));
  return { privatePem: pair.privateKey, publicPem: pair.publicKey };
}

function pairOptions(bits: number, passphrase?: string): RSAKeyPairOptions<'pem', 'pem'> {
  if (!(bits >= minBits && bits <= maxBits)) {
    throw new RangeError(`keysize ${bits} is out of range: use ${minBits} to ${maxBits}`);
  }
  return {
    modulusLength: bits,
    publicExponent: Number(minExponent),
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding:
      passphrase === undefined
        ? { type: 'pkcs1', format: 'pem' }
        : { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase },
  };
}
