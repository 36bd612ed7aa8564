/** The minion's PKI directory [WIRE 7.5]: its own pair, and the master's key that it trusts. */
import path from 'node:path';
import { makeDirectory, readTextIfPresent, writeFileAtomically } from '#runtime';
import { generateKeyPair } from '../rsa-keys.ts';

/** What a minion keeps between two starts. */
export interface MinionKeys {
  readonly privatePem: string;
  readonly publicPem: string;
  /** The master's key, once one was trusted. */
  readonly masterPem: string | undefined;
  /** Keeps the master's key. */
  readonly trustMaster: (pem: string) => Promise<void>;
}

/** Keys that live as long as the process, for throw-away minions. */
export async function createMinionKeys(bits = 2048): Promise<MinionKeys> {
  const { privatePem, publicPem } = await generateKeyPair(bits);
  return { privatePem, publicPem, masterPem: undefined, trustMaster: async () => {} };
}

/** Opens `minion.pem`, `minion.pub` and `minion_master.pub` in a directory; makes the pair once. */
export async function openMinionKeys(directory: string, bits = 2048): Promise<MinionKeys> {
  const privateFile = path.join(directory, 'minion.pem');
  const publicFile = path.join(directory, 'minion.pub');
  const masterFile = path.join(directory, 'minion_master.pub');
  await makeDirectory(directory, 0o700);
  let privatePem = await readTextIfPresent(privateFile);
  let publicPem = await readTextIfPresent(publicFile);
  if (privatePem === undefined || publicPem === undefined) {
    ({ privatePem, publicPem } = await generateKeyPair(bits));
    await writeFileAtomically(privateFile, privatePem, 0o400);
    await writeFileAtomically(publicFile, publicPem, 0o644);
  }
  return {
    privatePem,
    publicPem,
    masterPem: await readTextIfPresent(masterFile),
    trustMaster: (pem) => writeFileAtomically(masterFile, `${pem}\n`, 0o644),
  };
}
