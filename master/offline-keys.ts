/** Keys without a running master: what `salt-key` does in the PKI directory itself. */
import { openEmbeddedStore } from '../store/index.ts';
import type { KeysApi } from './api.ts';
import type { MasterConfig } from './config/options.ts';
import { createKeysApi, type OwnKey } from './keys/keys-api.ts';
import { openConfiguredKeys } from './keys/open-keys.ts';
import { VersionPins } from './requests/version-pins.ts';
import { readTextIfPresent } from './secrets/private-file.ts';

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
 * @throws KeyError ERR_PKI_DIR
 */
export async function openOfflineKeys(config: MasterConfig): Promise<OfflineKeys> {
  const keys = await openConfiguredKeys(config);
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
