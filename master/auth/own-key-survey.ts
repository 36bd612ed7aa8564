/** The master's own keys looked at for reports: nothing is made or changed. */

import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { MasterConfig } from '#config';
import { parsePrivateKey, parsePublicKey } from '#minion-protocol';
import { isMissing } from '#runtime';
import { readMasterSignature } from './master-keys.ts';

/** What is wrong with a pair. */
interface OwnKeyFault {
  readonly kind: 'missing' | 'unreadable' | 'small' | 'mismatch' | 'signature';
  /** Whether a master does not start with it. */
  readonly isFatal: boolean;
  readonly problem: string;
  readonly remedy: string;
}

/** One of the files that the master vouches for itself with. */
export interface SurveyedOwnKey {
  /** Below `pki_dir`. */
  readonly name: string;
  /** `undefined`: none. */
  readonly fault: OwnKeyFault | undefined;
}

/** The master's pairs, or the signature that stands for the second one. */
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
  // Told of the pair itself.
  if (publicPem === undefined || publicPem === 'unreadable') return undefined;
  try {
    await readMasterSignature(config, publicPem);
    return undefined;
  } catch {
    const problem =
      "The signature of the master's public key is missing, or of another text or key";
    const remedy = 'Remove the file, and make it with saltbridge salt-key --gen-signature';
    return fatal('signature', problem, remedy);
  }
}

/**
 * What is wrong with a pair in `pki_dir`; `undefined`: nothing.
 * @param name - file name without ending
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
    const problem = 'The private half is missing, and the public one is there';
    if (publicPem !== undefined) return fatal('missing', problem, pairRemedy);
    return {
      kind: 'missing',
      isFatal: false,
      problem: 'There is no pair; the first start makes one',
      remedy: 'Restore it from a backup if minions trust another one already',
    };
  }
  const key = readPrivate(privatePem, keyPass);
  if (key === 'small') {
    const remedy = 'Make a new pair; every minion must then forget the old one (minion_master.pub)';
    return fatal('small', 'The key has less than 2048 bits', remedy);
  }
  if (key === undefined) {
    return fatal('unreadable', 'The private half is no RSA key that can be read', unreadableRemedy);
  }
  if (publicPem === undefined || fits(key, publicPem)) return undefined;
  return fatal('mismatch', 'The public half does not belong to the private one', pairRemedy);
}

const unreadableRemedy =
  'See who owns it, and whether it is encrypted: then set key_pass or signing_key_pass';
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
