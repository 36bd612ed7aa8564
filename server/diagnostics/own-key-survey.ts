/** Checks the master's own keys for reports, without changing anything. */

import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { MasterConfig } from '#config';
import { readMasterSignature } from '#master';
import { parsePrivateKey, parsePublicKey } from '#minion-protocol';
import { isMissing } from '#runtime';

/** Fault of a key pair of the master. */
interface OwnKeyFault {
  readonly kind: 'missing' | 'unreadable' | 'small' | 'mismatch' | 'signature';
  /** Whether the fault prevents the master from starting. */
  readonly isFatal: boolean;
  readonly problem: string;
  readonly remedy: string;
}

/** Key file of the master, with its fault. */
export interface SurveyedOwnKey {
  /** Path relative to `pki_dir`. */
  readonly name: string;
  /** Fault of the key, or `undefined` if it is valid. */
  readonly fault: OwnKeyFault | undefined;
}

/**
 * Checks the master's key pairs. If a precomputed signature replaces the signing key pair, checks
 * the signature instead.
 */
export async function surveyOwnKeys(config: MasterConfig): Promise<SurveyedOwnKey[]> {
  const { pkiDir, masterSignKeyName, masterPubkeySignature } = config;
  const own = { name: 'master.pem', fault: await pairFault(pkiDir, 'master', config.keyPass) };
  if (!config.masterSignPubkey) return [own];
  if (config.masterUsePubkeySignature) {
    return [own, { name: masterPubkeySignature, fault: await signatureFault(config) }];
  }
  const fault = await pairFault(pkiDir, masterSignKeyName, config.signingKeyPass);
  return [own, { name: `${masterSignKeyName}.pem`, fault }];
}

async function signatureFault(config: MasterConfig): Promise<OwnKeyFault | undefined> {
  const publicPem = await readIfThere(path.join(config.pkiDir, 'master.pub'));
  // A fault of the pair is reported for the private key, so the public key has none.
  if (publicPem === undefined || publicPem === 'unreadable') return undefined;
  try {
    await readMasterSignature(config, publicPem);
    return undefined;
  } catch {
    const problem =
      "The signature of the master's public key is missing, or was made for another public key or with another signing key";
    const remedy = 'Remove the file and create it with saltbridge salt-key --gen-signature';
    return fatal('signature', problem, remedy);
  }
}

/**
 * Returns the fault of a pair in `pki_dir`, or `undefined` if it is valid.
 * @param name - file name without extension
 */
async function pairFault(
  pkiDir: string,
  name: string,
  keyPass: string | null,
): Promise<OwnKeyFault | undefined> {
  const privateFile = path.join(pkiDir, `${name}.pem`);
  const publicFile = path.join(pkiDir, `${name}.pub`);
  const [privatePem, publicPem] = await Promise.all([
    readIfThere(privateFile),
    readIfThere(publicFile),
  ]);
  if (privatePem === 'unreadable' || publicPem === 'unreadable') {
    return fatal('unreadable', 'The pair cannot be read by this user', unreadableRemedy);
  }
  if (privatePem === undefined) {
    const problem = 'The private key is missing, but the public key exists';
    if (publicPem !== undefined) return fatal('missing', problem, pairRemedy);
    return {
      kind: 'missing',
      isFatal: false,
      problem: 'The key pair does not exist; the first start creates it',
      remedy:
        'If minions already trust another key pair of this master, restore that pair from a backup',
    };
  }
  const key = readPrivate(privatePem, keyPass);
  if (key === 'small') {
    const remedy =
      'Create a new pair; every minion must then delete the old one (minion_master.pub)';
    return fatal('small', 'The key has fewer than 2048 bits', remedy);
  }
  if (key === undefined) {
    return fatal('unreadable', 'The private key is not a readable RSA key', unreadableRemedy);
  }
  if (publicPem === undefined || fits(key, publicPem)) return undefined;
  return fatal('mismatch', 'The public key does not match the private key', pairRemedy);
}

const unreadableRemedy = 'Check its owner; if it is encrypted, set key_pass or signing_key_pass';
const pairRemedy = 'Restore the pair from a backup; minions trust only that pair';

function fatal(kind: OwnKeyFault['kind'], problem: string, remedy: string): OwnKeyFault {
  return { kind, isFatal: true, problem, remedy };
}

function readPrivate(pem: string, keyPass: string | null): KeyObject | 'small' | undefined {
  try {
    return parsePrivateKey(pem, keyPass ?? undefined);
  } catch {
    return isSmallPrivateKey(pem, keyPass) ? 'small' : undefined;
  }
}

function isSmallPrivateKey(pem: string, keyPass: string | null): boolean {
  try {
    const key = createPrivateKey({
      key: pem,
      ...(keyPass === null ? {} : { passphrase: keyPass }),
    });
    return (key.asymmetricKeyDetails?.modulusLength ?? 2048) < 2048;
  } catch {
    return false;
  }
}

function fits(key: KeyObject, publicPem: string): boolean {
  try {
    return parsePublicKey(publicPem).equals(createPublicKey(key));
  } catch {
    return false;
  }
}

async function readIfThere(file: string): Promise<string | 'unreadable' | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    return isMissing(error) ? undefined : 'unreadable';
  }
}
