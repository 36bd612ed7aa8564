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

/** One RSA pair of the master. */
export interface MasterKeyPair {
  readonly privateKey: KeyObject;
  /** Clean text: LF line ends, no final line feed, as it is sent to minions [WIRE 6.3]. */
  readonly publicPem: string;
}

/** What the key files are called and how new ones are made. */
export interface MasterKeyOptions {
  readonly pkiDir: string;
  /** File name without ending: `master`, or `master_sign_key_name`. */
  readonly name: string;
  /** Bits of a new key (`keysize`). */
  readonly bits: number;
  /** Opens an encrypted private key, and encrypts a new one (`key_pass`, `signing_key_pass`). */
  readonly passphrase?: string;
}

/**
 * Reads `<pkiDir>/<name>.pem` and `.pub`, or makes the pair (0400 and 0644) where there is none
 * [WIRE 7.4]. A missing public half is written anew; one that does not fit is refused.
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
    throw new MasterError('ERR_OWN_KEY', `${publicFile} is not the public half of ${privateFile}`);
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
        ? 'is it encrypted? then set its passphrase, key_pass or signing_key_pass'
        : 'is its passphrase right, key_pass or signing_key_pass?';
    throw new MasterError('ERR_OWN_KEY', `${file} is not a readable RSA private key (${hint})`, {
      cause,
    });
  }
}

/** @throws MasterError ERR_OWN_KEY */
function readPublicKey(file: string, pem: string): KeyObject {
  try {
    return parsePublicKey(pem);
  } catch (cause) {
    if (!(cause instanceof ProtocolError)) throw cause;
    throw new MasterError('ERR_OWN_KEY', `${file} is not a readable RSA public key`, { cause });
  }
}

/** Where the signature and what can check it are. */
export type MasterSignatureOptions = Pick<
  MasterConfig,
  'pkiDir' | 'masterPubkeySignature' | 'masterSignKeyName'
>;

const algorithms: readonly SigningAlgorithm[] = ['PKCS1v15-SHA1', 'PKCS1v15-SHA224'];

/**
 * The signature of the master's public key that was made beforehand, as it is sent to minions:
 * base64 and a line feed. With it the key that signs need not be on the master
 * (`master_use_pubkey_signature`) [WIRE 6.6]. It is checked here, because with one that does not
 * fit every minion that verifies would turn away: where `<master_sign_key_name>.pub` is there.
 * @throws MasterError ERR_OWN_KEY
 */
export async function readMasterSignature(
  { pkiDir, masterPubkeySignature, masterSignKeyName }: MasterSignatureOptions,
  masterPublicPem: string,
): Promise<string> {
  const file = path.resolve(pkiDir, masterPubkeySignature);
  const text = await readTextIfPresent(file);
  if (text === undefined) {
    throw new MasterError('ERR_OWN_KEY', `${file} is missing; salt-key --gen-signature makes it`);
  }
  const signature = Buffer.from(text, 'base64');
  const publicFile = path.join(pkiDir, `${masterSignKeyName}.pub`);
  const publicPem = await readTextIfPresent(publicFile);
  const signKey = publicPem === undefined ? undefined : readPublicKey(publicFile, publicPem);
  if (signKey !== undefined && !isSignedBy(signKey, masterPublicPem, signature)) {
    throw new MasterError(
      'ERR_OWN_KEY',
      `${file} does not sign master.pub as minions get it, by the key of ${publicFile}; ` +
        'remove it, and make it again with saltbridge salt-key --gen-signature',
    );
  }
  return `${signature.toString('base64')}\n`;
}

/** Minions get the text without its last line feed; Salt's own salt-key signs that as well. */
function isSignedBy(key: KeyObject, masterPublicPem: string, signature: Buffer): boolean {
  const text = Buffer.from(cleanKeyText(masterPublicPem));
  return algorithms.some((algorithm) => rsaVerify(key, text, signature, algorithm));
}

/**
 * Makes the folders that hold keys and state, for this user alone, and refuses one that others may
 * write to [THREATS G-10].
 */
export async function preparePrivateDirectories(directories: readonly string[]): Promise<void> {
  for (const directory of directories) {
    await makeDirectory(directory, 0o700);
    const { mode } = await stat(directory);
    if ((mode & 0o002) !== 0) {
      throw new MasterError(
        'ERR_OWN_KEY',
        `${directory} may be written by everybody; remove that right: chmod o-w`,
      );
    }
  }
}

/** A key pair that signs the master's key for each minion, or a signature that was made beforehand. */
export type MasterKeySigner =
  | { readonly kind: 'keys'; readonly keys: MasterKeyPair }
  | { readonly kind: 'signature'; readonly signature: string };
