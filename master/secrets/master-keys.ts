import { createPublicKey, type KeyObject } from 'node:crypto';
import path from 'node:path';
import {
  cleanKeyText,
  generateKeyPair,
  ProtocolError,
  parsePrivateKey,
  parsePublicKey,
} from '../../minion-protocol/index.ts';
import { makeDirectory } from '../../runtime/index.ts';
import { MasterError } from '../errors.ts';
import { readTextIfPresent, writeFileAtomically } from './private-file.ts';

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
  // protection: key-without-passphrase
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
export function readPublicKey(file: string, pem: string): KeyObject {
  try {
    return parsePublicKey(pem);
  } catch (cause) {
    if (!(cause instanceof ProtocolError)) throw cause;
    throw new MasterError('ERR_OWN_KEY', `${file} is not a readable RSA public key`, { cause });
  }
}
