/** The minion's PKI directory [WIRE 7.5]: its own pair, and the master's key that it trusts. */
import { randomBytes } from 'node:crypto';
import { open, readFile, rename } from 'node:fs/promises';
import path from 'node:path';
import { makeDirectory } from '#runtime';
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
  const [privateFile, publicFile, masterFile] = [
    path.join(directory, 'minion.pem'),
    path.join(directory, 'minion.pub'),
    path.join(directory, 'minion_master.pub'),
  ];
  await makeDirectory(directory, 0o700);
  let privatePem = await readIfPresent(privateFile);
  let publicPem = await readIfPresent(publicFile);
  if (privatePem === undefined || publicPem === undefined) {
    ({ privatePem, publicPem } = await generateKeyPair(bits));
    await writeWhole(privateFile, privatePem, 0o400);
    await writeWhole(publicFile, publicPem, 0o644);
  }
  return {
    privatePem,
    publicPem,
    masterPem: await readIfPresent(masterFile),
    trustMaster: (pem) => writeWhole(masterFile, `${pem}\n`, 0o644),
  };
}

async function readIfPresent(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

async function writeWhole(file: string, content: string, mode: number): Promise<void> {
  const temporary = `${file}.${randomBytes(6).toString('hex')}.tmp`;
  const handle = await open(temporary, 'wx', mode);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
}
