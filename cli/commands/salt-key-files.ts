/** `salt-key --gen-keys` and `--gen-signature` [salt key.py, crypt.py gen_keys, gen_signature]. */

import { access, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { MasterConfig } from '#config';
import {
  cleanKeyText,
  generateKeyPair,
  keyFingerprint,
  parsePrivateKey,
  rsaSign,
} from '#minion-protocol';
import { makeDirectory } from '#runtime';
import { writeNewFile } from './key-files.ts';

/** Files for creating a signature. By default, they are in the PKI directory. */
export interface SignatureOptions {
  readonly priv?: string;
  readonly pub?: string;
  readonly signaturePath?: string;
  readonly autoCreate?: boolean;
  /** Size of a key that is generated, in bits. */
  readonly keysize: number;
}

/**
 * Creates `<name>.pem` and `<name>.pub`. Existing files stay unchanged.
 * @param passphrase - passphrase that encrypts the private key
 * @returns the fingerprint of the public key
 */
export async function generateSaltKeyPair(
  dir: string,
  name: string,
  bits: number,
  passphrase?: string,
): Promise<string> {
  await makeDirectory(dir, 0o777);
  const base = path.join(dir, name);
  if (!(await fileExists(`${base}.pem`))) {
    const { privatePem, publicPem } = await generateKeyPair(bits, passphrase);
    await writeNewFile(`${base}.pem`, privatePem, 0o400);
    await writeFile(`${base}.pub`, publicPem, { mode: 0o644 });
  }
  return keyFingerprint(await readFile(`${base}.pub`, 'utf8'), 'sha256');
}

/**
 * Signs the public key of the master in the form that minions receive: without the last line feed
 * of its file. Salt's `salt-key` signs the line feed too [WIRE 6.6].
 * @returns true after success, false if the file exists, or an error message
 */
export async function generateMasterSignature(
  config: MasterConfig,
  options: SignatureOptions,
): Promise<boolean | string> {
  const inPki = (name: string): string => path.join(config.pkiDir, name);
  const passphrase = config.signingKeyPass ?? undefined;
  const pub = options.pub || inPki('master.pub');
  const signing = inPki(`${config.masterSignKeyName}.pem`);
  if (options.pub && !(await fileExists(pub))) return `Public-key ${pub} does not exist`;
  if (options.priv && !(await fileExists(options.priv))) {
    return `Private-key ${options.priv} does not exist`;
  }
  if (!options.priv && !(await fileExists(signing))) {
    if (options.autoCreate !== true) return 'No usable private-key found';
    await generateSaltKeyPair(config.pkiDir, config.masterSignKeyName, options.keysize, passphrase);
  }
  if (!(await fileExists(pub))) return 'No usable public-key found';
  const file = path.resolve(options.signaturePath || config.pkiDir, config.masterPubkeySignature);
  if (await fileExists(file)) return false;
  const pem = await readFile(options.priv || signing, 'utf8');
  const key = parsePrivateKey(pem, passphrase);
  const signature = rsaSign(
    key,
    Buffer.from(cleanKeyText(await readFile(pub, 'utf8'))),
    'PKCS1v15-SHA1',
  );
  await writeFile(file, `${signature.toString('base64')}\n`, { flag: 'wx' });
  return true;
}

async function fileExists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
