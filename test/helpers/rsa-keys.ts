/** RSA pairs that were made beforehand: making one takes longer than most tests. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { MinionKeys } from '#minion-protocol';

/** The texts of a pair. */
export interface RsaPair {
  readonly privatePem: string;
  readonly publicPem: string;
}

const file = new URL('../../test/fixtures/rsa-keys.json', import.meta.url);
const made: Readonly<Record<'bits1024' | 'bits2048' | 'bits3072' | 'bits4096', RsaPair[]>> =
  JSON.parse(readFileSync(file, 'utf8'));

/** Another pair for each index from 0 to 7, of 2048 bits; of other sizes there is one. */
export function rsaPair(index = 0, bits: 1024 | 2048 | 3072 | 4096 = 2048): RsaPair {
  const pair = made[`bits${bits}`][index];
  if (pair === undefined) throw new RangeError(`no pair ${index} of ${bits} bits`);
  return pair;
}

/** Keys of a minion that trusts whichever master it meets first. */
export function minionKeys(index: number): MinionKeys {
  return { ...rsaPair(index), masterPem: undefined, trustMaster: async () => {} };
}

/** Lays a master's pair where it looks for its own, unless the directory is there already. */
export function layMasterKey(pkiDir: string, index = 7): void {
  if (existsSync(pkiDir)) return;
  mkdirSync(pkiDir, { recursive: true, mode: 0o700 });
  const { privatePem, publicPem } = rsaPair(index);
  writeFileSync(path.join(pkiDir, 'master.pem'), privatePem, { mode: 0o400 });
  writeFileSync(path.join(pkiDir, 'master.pub'), publicPem);
}
