/**
 * RSA key pairs that were generated beforehand, because generating one takes longer than most
 * tests.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { MinionKeys } from '#minion-protocol';

/** PEM texts of a key pair. */
export interface RsaPair {
  readonly privatePem: string;
  readonly publicPem: string;
}

const file = new URL('../../test/fixtures/rsa-keys.json', import.meta.url);
const made: Readonly<Record<'bits1024' | 'bits2048' | 'bits3072' | 'bits4096', RsaPair[]>> =
  JSON.parse(readFileSync(file, 'utf8'));

/**
 * Returns a key pair. There is a different pair of 2048 bits for each index from 0 to 7, and one
 * pair of each other size.
 */
export function rsaPair(index = 0, bits: 1024 | 2048 | 3072 | 4096 = 2048): RsaPair {
  const pair = made[`bits${bits}`][index];
  if (pair === undefined) throw new RangeError(`no pair ${index} of ${bits} bits`);
  return pair;
}

/** Returns the keys of a minion that trusts the first master that it connects to. */
export function minionKeys(index: number): MinionKeys {
  return { ...rsaPair(index), masterPem: undefined, trustMaster: async () => {} };
}

/**
 * Writes a key pair to the place where a master looks for its own keys, unless the directory
 * exists.
 */
export function layMasterKey(pkiDir: string, index = 7): void {
  if (existsSync(pkiDir)) return;
  mkdirSync(pkiDir, { recursive: true, mode: 0o700 });
  const { privatePem, publicPem } = rsaPair(index);
  writeFileSync(path.join(pkiDir, 'master.pem'), privatePem, { mode: 0o400 });
  writeFileSync(path.join(pkiDir, 'master.pub'), publicPem);
}
