/** The keys of a master that does not run, in the PKI directory itself. */

import { LiveConfig, type MasterConfig } from '#config';
import { readTextIfPresent } from '#runtime';
import { openEmbeddedStore } from '#store';
import { type KeysApi, MasterError } from '../api/index.ts';
import { openConfiguredKeys } from './key-store.ts';
import { createKeysApi, type OwnKey } from './keys-api.ts';
import { VersionPins } from './version-check.ts';

/** Keys that are open. */
export interface OfflineKeys {
  /** No protocol version is known (0), and no sign-in with another key is counted. */
  readonly keys: KeysApi;
  /** May be called twice. */
  close(): Promise<void>;
}

/**
 * Opens the keys of a master that is not running. One that starts later ends what deleted and
 * rejected keys could still do; one that runs meanwhile notices every change.
 * @throws KeyError ERR_PKI_DIR; MasterError ERR_MASTER_STOPPED for those of a cluster
 */
export async function openOfflineKeys(config: MasterConfig): Promise<OfflineKeys> {
  if (config.cluster !== null) {
    throw new MasterError(
      'ERR_MASTER_STOPPED',
      'the keys of a cluster are in its store: start this master, or ask one that runs',
    );
  }
  const keys = await openConfiguredKeys(new LiveConfig(config));
  return {
    keys: createKeysApi({
      keys,
      hashType: config.hashType,
      protocolOf: () => 0,
      unpin: (id) => unpin(config, id),
      ownKeys: () => readOwnKeys(config),
    }),
    close: () => keys.close(),
  };
}

async function unpin({ stateDir }: MasterConfig, id: string): Promise<void> {
  const store = await openEmbeddedStore({ directory: `${stateDir}/store` });
  try {
    const pins = await VersionPins.open(store, 'auto');
    await pins.forget([id]);
  } finally {
    await store.close();
  }
}

/** Those that are there; none is made. */
async function readOwnKeys(config: MasterConfig): Promise<OwnKey[]> {
  const names = [
    'master.pub',
    ...(config.masterSignPubkey && !config.masterUsePubkeySignature
      ? [`${config.masterSignKeyName}.pub`]
      : []),
  ];
  const own: OwnKey[] = [];
  for (const name of names) {
    const pem = await readTextIfPresent(`${config.pkiDir}/${name}`);
    if (pem !== undefined) own.push({ name, pem });
  }
  return own;
}
