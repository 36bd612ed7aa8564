/** The minion's PKI directory [WIRE 7.5]: its own key pair and the master key that it trusts. */
import path from 'node:path';
import { makeDirectory, readTextIfPresent, writeFileAtomically } from '#runtime';
import { generateKeyPair } from '../rsa-keys.ts';

/** Key pair of a minion, and the public key of its master. */
export interface MinionKeys {
  readonly privatePem: string;
  readonly publicPem: string;
  /** Public key of the trusted master, or `undefined` before the first successful sign-in. */
  readonly masterPem: string | undefined;
  /** Stores the master key as trusted. */
  readonly trustMaster: (pem: string) => Promise<void>;
}

/** Creates a key pair in memory, for temporary minions. Nothing is stored in files. */
export async function createMinionKeys(bits = 2048): Promise<MinionKeys> {
  const { privatePem, publicPem } = await generateKeyPair(bits);
  return { privatePem, publicPem, masterPem: undefined, trustMaster: async () => {} };
}

/**
 * Reads `minion.pem`, `minion.pub` and `minion_master.pub` from a directory. If a file of the key
 * pair is missing, generates and stores a new key pair.
 */
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
