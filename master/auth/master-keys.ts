import { createPublicKey, type KeyObject } from 'node:crypto';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import type { MasterConfig } from '#config';
import {
  cleanKeyText,
  generateKeyPair,
  ProtocolError,
  parsePrivateKey,
  parsePublicKey,
  rsaVerify,
  type SigningAlgorithm,
} from '#minion-protocol';
import { makeDirectory, readTextIfPresent, writeFileAtomically } from '#runtime';
import { MasterError } from '../api/index.ts';

/** RSA key pair of the master. */
export interface MasterKeyPair {
  readonly privateKey: KeyObject;
  /**
   * Public key in PEM format, as minions receive it: with LF line ends and without a final line
   * feed [WIRE 6.3].
   */
  readonly publicPem: string;
}

/** Names of the key files, and properties of a new key pair. */
export interface MasterKeyOptions {
  readonly pkiDir: string;
  /** File name without extension: `master`, or the value of `master_sign_key_name`. */
  readonly name: string;
  /** Size of a new key in bits (option `keysize`). */
  readonly bits: number;
  /**
   * Passphrase of the private key, for an existing or a new key (options `key_pass`,
   * `signing_key_pass`).
   */
  readonly passphrase?: string;
}

/**
 * Reads `<pkiDir>/<name>.pem` and `.pub`, or creates the pair (modes 0400 and 0644) if it does not
 * exist [WIRE 7.4]. If only the public key is missing, it is derived from the private key. A public
 * key that does not match the private key is rejected.
 * @throws MasterError ERR_OWN_KEY
 */
export async function openMasterKeys(options: MasterKeyOptions): Promise<MasterKeyPair> {
  const privateFile = path.join(options.pkiDir, `${options.name}.pem`);
  const publicFile = path.join(options.pkiDir, `${options.name}.pub`);
  const privatePem = await readTextIfPresent(privateFile);
  const publicPem = await readTextIfPresent(publicFile);
  if (privatePem === undefined) {
    if (publicPem !== undefined) {
      throw new MasterError(
        'ERR_OWN_KEY',
        `${publicFile} exists without ${privateFile}: minions trust the pair, so it is not replaced`,
      );
    }
    return makePair(options, privateFile, publicFile);
  }
  const privateKey = readPrivateKey(privateFile, privatePem, options.passphrase);
  const derived = createPublicKey(privateKey);
  if (publicPem === undefined) {
    const pem = cleanKeyText(String(derived.export({ type: 'spki', format: 'pem' })));
    await writeFileAtomically(publicFile, `${pem}\n`, 0o644);
    return { privateKey, publicPem: pem };
  }
  if (!readPublicKey(publicFile, publicPem).equals(derived)) {
    throw new MasterError(
      'ERR_OWN_KEY',
      `${publicFile} is not the public key of ${privateFile}; restore the pair from a backup`,
    );
  }
  return { privateKey, publicPem: cleanKeyText(publicPem) };
}

async function makePair(
  options: MasterKeyOptions,
  privateFile: string,
  publicFile: string,
): Promise<MasterKeyPair> {
  await makeDirectory(options.pkiDir, 0o700);
  const pair = await generateKeyPair(options.bits, options.passphrase);
  await writeFileAtomically(privateFile, pair.privatePem, 0o400);
  await writeFileAtomically(publicFile, pair.publicPem, 0o644);
  return {
    privateKey: parsePrivateKey(pair.privatePem, options.passphrase),
    publicPem: cleanKeyText(pair.publicPem),
  };
}

function readPrivateKey(file: string, pem: string, passphrase: string | undefined): KeyObject {
  try {
    return parsePrivateKey(pem, passphrase);
  } catch (cause) {
    if (!(cause instanceof ProtocolError)) throw cause;
    const hint =
      passphrase === undefined
        ? 'if it is encrypted, set its passphrase with key_pass or signing_key_pass'
        : 'check its passphrase in key_pass or signing_key_pass';
    throw new MasterError('ERR_OWN_KEY', `${file} is not a readable RSA private key (${hint})`, {
      cause,
    });
  }
}

/**
 * Parses a public key.
 * @throws MasterError ERR_OWN_KEY
 */
function readPublicKey(file: string, pem: string): KeyObject {
  try {
    return parsePublicKey(pem);
  } catch (cause) {
    if (!(cause instanceof ProtocolError)) throw cause;
    throw new MasterError('ERR_OWN_KEY', `${file} is not a readable RSA public key`, { cause });
  }
}

/** Options that determine the path of the signature and of the key that verifies it. */
export type MasterSignatureOptions = Pick<
  MasterConfig,
  'pkiDir' | 'masterPubkeySignature' | 'masterSignKeyName'
>;

const algorithms: readonly SigningAlgorithm[] = ['PKCS1v15-SHA1', 'PKCS1v15-SHA224'];

/**
 * Reads the precomputed signature of the master's public key in the form that minions receive:
 * base64 and a line feed. With a precomputed signature (`master_use_pubkey_signature`), the signing
 * key need not be stored on the master [WIRE 6.6]. If `<master_sign_key_name>.pub` exists, the
 * signature is verified, because minions would reject a master with a wrong signature.
 * @throws MasterError ERR_OWN_KEY
 */
export async function readMasterSignature(
  { pkiDir, masterPubkeySignature, masterSignKeyName }: MasterSignatureOptions,
  masterPublicPem: string,
): Promise<string> {
  const file = path.resolve(pkiDir, masterPubkeySignature);
  const text = await readTextIfPresent(file);
  if (text === undefined) {
    throw new MasterError(
      'ERR_OWN_KEY',
      `${file} is missing; create it with saltbridge salt-key --gen-signature`,
    );
  }
  const signature = Buffer.from(text, 'base64');
  const publicFile = path.join(pkiDir, `${masterSignKeyName}.pub`);
  const publicPem = await readTextIfPresent(publicFile);
  const signKey = publicPem === undefined ? undefined : readPublicKey(publicFile, publicPem);
  if (signKey !== undefined && !isSignedBy(signKey, masterPublicPem, signature)) {
    throw new MasterError(
      'ERR_OWN_KEY',
      `${file} is not a signature of master.pub by the key in ${publicFile}; ` +
        'remove it and create it again with saltbridge salt-key --gen-signature',
    );
  }
  return `${signature.toString('base64')}\n`;
}

/**
 * Whether a signature is valid for the text of the public key without its last line feed. Minions
 * receive this text, and Salt's `salt-key` signs it.
 */
function isSignedBy(key: KeyObject, masterPublicPem: string, signature: Buffer): boolean {
  const text = Buffer.from(cleanKeyText(masterPublicPem));
  return algorithms.some((algorithm) => rsaVerify(key, text, signature, algorithm));
}

/**
 * Creates the directories for keys and state. Only the user that runs this process can access new
 * directories. Rejects existing directories that all users may write to [THREATS G-10].
 * @throws MasterError ERR_OWN_KEY
 */
export async function preparePrivateDirectories(directories: readonly string[]): Promise<void> {
  for (const directory of directories) {
    await makeDirectory(directory, 0o700);
    const { mode } = await stat(directory);
    if ((mode & 0o002) !== 0) {
      throw new MasterError(
        'ERR_OWN_KEY',
        `${directory} is writable for all users; remove the permission with chmod o-w`,
      );
    }
  }
}

/**
 * Source of the signature of the master's public key: a key pair that signs for each minion, or a
 * precomputed signature.
 */
export type MasterKeySigner =
  | { readonly kind: 'keys'; readonly keys: MasterKeyPair }
  | { readonly kind: 'signature'; readonly signature: string };
