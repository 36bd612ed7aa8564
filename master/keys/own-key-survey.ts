/** The master's own key pairs looked at for reports: nothing is made or changed. */
import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parsePrivateKey, parsePublicKey } from '../../minion-protocol/index.ts';
import type { MasterConfig } from '../config/options.ts';

/** What is wrong with a pair. */
export interface OwnKeyFault {
  readonly kind: 'missing' | 'unreadable' | 'small' | 'mismatch';
  /** Whether a master does not start with it. */
  readonly isFatal: boolean;
  readonly problem: string;
  readonly remedy: string;
}

/**
 * What is wrong with a pair in `pki_dir`; `undefined`: nothing.
 * @param name - file name without ending
 */
export async function ownKeyFault(
  { pkiDir, keyPass }: Pick<MasterConfig, 'pkiDir' | 'keyPass'>,
  name: string,
): Promise<OwnKeyFault | undefined> {
  const privateFile = path.join(pkiDir, `${name}.pem`);
  const publicFile = path.join(pkiDir, `${name}.pub`);
  const [privatePem, publicPem] = await Promise.all([
    readIfThere(privateFile),
    readIfThere(publicFile),
  ]);
  if (privatePem === 'unreadable' || publicPem === 'unreadable') {
    return unreadable('The pair cannot be read by this user');
  }
  if (privatePem === undefined) return missing(publicPem !== undefined);
  const key = readPrivate(privatePem, keyPass);
  if (key === 'small') return small();
  if (key === undefined) return unreadable('The private half is no RSA key that can be read');
  if (publicPem === undefined || fits(key, publicPem)) return undefined;
  return {
    kind: 'mismatch',
    isFatal: true,
    problem: 'The public half does not belong to the private one',
    remedy: 'Restore the pair from a backup; minions trust only that pair',
  };
}

function missing(hasPublicHalf: boolean): OwnKeyFault {
  return hasPublicHalf
    ? {
        kind: 'missing',
        isFatal: true,
        problem: 'The private half is missing, and the public one is there',
        remedy: 'Restore the pair from a backup; minions trust only that pair',
      }
    : {
        kind: 'missing',
        isFatal: false,
        problem: 'There is no pair; the first start makes one',
        remedy: 'Restore it from a backup if minions trust another one already',
      };
}

function unreadable(problem: string): OwnKeyFault {
  return {
    kind: 'unreadable',
    isFatal: true,
    problem,
    remedy: 'See who owns it, and whether it is encrypted: then set key_pass',
  };
}

function small(): OwnKeyFault {
  return {
    kind: 'small',
    isFatal: true,
    problem: 'The key has less than 2048 bits',
    remedy: 'Make a new pair; every minion must then forget the old one (minion_master.pub)',
  };
}

function readPrivate(pem: string, keyPass: string | null): KeyObject | 'small' | undefined {
  try {
    return parsePrivateKey(pem, keyPass ?? undefined);
  } catch {
    return isSmall(pem, keyPass) ? 'small' : undefined;
  }
}

function isSmall(pem: string, keyPass: string | null): boolean {
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
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    return isMissing ? undefined : 'unreadable';
  }
}
