/**
 * Keys that the members of a cluster share. They are stored in the cluster's store, encrypted with
 * the cluster's secret.
 */

import { rename } from 'node:fs/promises';
import path from 'node:path';
import type { FixedConfig } from '#config';
import type { Cluster } from '#master';
import { type Auth, createSeal, makeSealKey, readSealKey, writeSealKey } from '#master';
import { readTextIfPresent, writeFileAtomically } from '#runtime';
import { type Key, type Operation, type Store, StoreError } from '#store';

const sealKeyRow: Key = ['cluster', 'seal-key'];
const ownKeysPrefix: Key = ['cluster', 'own-keys'];

type SealingCluster = Pick<Cluster, 'derive' | 'name'>;

function sealOf(cluster: SealingCluster): Auth['seal'] {
  return createSeal(cluster.derive('own keys'));
}

/**
 * Returns the cipher with which all members encrypt secrets in the store. Its key is a row of the
 * store, encrypted with the cluster's secret.
 * @throws MasterError ERR_SEAL if the key cannot be decrypted; StoreError ERR_CLUSTER_LOG if the
 * cluster was not initialised
 */
export async function openClusterSeal(
  store: Pick<Store, 'get'>,
  cluster: SealingCluster,
): Promise<Auth['seal']> {
  const entry = await store.get(sealKeyRow);
  if (entry === undefined) throw notInitialised(cluster);
  return createSeal(new Uint8Array(sealOf(cluster).open(entry.value)));
}

function notInitialised({ name }: SealingCluster): StoreError {
  return new StoreError(
    'ERR_CLUSTER_LOG',
    `cluster ${name} has no keys yet; run saltbridge cluster init on its first member`,
  );
}

/** Returns the names of the master's own key files in `pki_dir`. */
function ownKeyFiles(
  config: Pick<FixedConfig, 'masterSignKeyName' | 'masterPubkeySignature' | 'masterSignPubkey'>,
): string[] {
  const { masterSignKeyName: sign, masterPubkeySignature: signature } = config;
  return [
    'master.pem',
    'master.pub',
    ...(config.masterSignPubkey ? [`${sign}.pem`, `${sign}.pub`, signature] : []),
  ];
}

/**
 * Stores two kinds of keys in the store of a cluster: the key that encrypts secrets, and the
 * master's own keys. Keys that the store already contains are not replaced.
 */
export async function shareOwnKeys(
  config: Pick<
    FixedConfig,
    'masterSignKeyName' | 'masterPubkeySignature' | 'masterSignPubkey' | 'pkiDir' | 'stateDir'
  >,
  store: Store,
  cluster: SealingCluster,
): Promise<void> {
  const seal = sealOf(cluster);
  const operations: Operation[] = [];
  if ((await store.get(sealKeyRow)) === undefined) {
    const key = (await readSealKey(config.stateDir)) ?? makeSealKey();
    operations.push({ op: 'put', key: sealKeyRow, value: seal.seal(key) });
  }
  for (const name of ownKeyFiles(config)) {
    const row = [...ownKeysPrefix, name];
    const text = await readTextIfPresent(path.join(config.pkiDir, name));
    if (text === undefined || (await store.get(row)) !== undefined) continue;
    operations.push({ op: 'put', key: row, value: seal.seal(Buffer.from(text)) });
  }
  if (operations.length > 0) await store.write(operations);
}

/**
 * Copies the key for encrypting secrets from the store to the file `seal.key`, for use by a
 * standalone master.
 */
export async function exportSealKey(
  { stateDir }: Pick<FixedConfig, 'stateDir'>,
  store: Pick<Store, 'get'>,
  cluster: SealingCluster,
): Promise<void> {
  const entry = await store.get(sealKeyRow);
  if (entry === undefined) throw notInitialised(cluster);
  await writeSealKey(stateDir, sealOf(cluster).open(entry.value));
}

/** A key file that was renamed, and its new path. */
interface ReplacedKey {
  readonly file: string;
  readonly aside: string;
}

/**
 * Writes the master keys of the cluster to `pki_dir`. Files with different content are renamed
 * first.
 * @returns the renamed files
 * @throws StoreError ERR_CLUSTER_LOG; MasterError ERR_SEAL
 */
export async function writeOwnKeys(
  { pkiDir }: Pick<FixedConfig, 'pkiDir'>,
  store: Pick<Store, 'list'>,
  { cluster, now }: { readonly cluster: SealingCluster; readonly now: () => number },
): Promise<readonly ReplacedKey[]> {
  const seal = sealOf(cluster);
  const replaced: ReplacedKey[] = [];
  let count = 0;
  for await (const { key, value } of store.list(ownKeysPrefix)) {
    const name = path.basename(key.at(-1) ?? '');
    const file = path.join(pkiDir, name);
    const text = Buffer.from(seal.open(value)).toString();
    const found = await readTextIfPresent(file);
    count += 1;
    if (found === text) continue;
    if (found !== undefined) {
      const aside = `${file}.replaced-${now()}`;
      await rename(file, aside);
      replaced.push({ file, aside });
    }
    await writeFileAtomically(file, text, name.endsWith('.pem') ? 0o400 : 0o644);
  }
  if (count === 0) throw notInitialised(cluster);
  return replaced;
}
