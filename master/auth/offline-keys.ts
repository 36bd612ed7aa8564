/** Operations on the keys in the PKI directory of a master that is not running. */

import { LiveConfig, type MasterConfig } from '#config';
import { readTextIfPresent } from '#runtime';
import { openEmbeddedStore } from '#store';
import { type KeysApi, MasterError } from '../api/index.ts';
import { KeyGenerator } from './key-generator.ts';
import { openConfiguredKeys } from './key-store.ts';
import { createKeysApi, type OwnKey } from './keys-api.ts';
import { VersionPins } from './version-check.ts';

/** Opened keys of a master that is not running. The caller must close them. */
export interface OfflineKeys {
  /**
   * Operations on the keys. They report 0 as the protocol version and as the number of conflicts,
   * because neither is known.
   */
  readonly keys: KeysApi;
  /** Releases the keys. May be called more than once. */
  close(): Promise<void>;
}

/**
 * Opens the keys of a master that is not running. When the master starts, it revokes the keys that
 * were deleted or rejected. If the master starts before the keys are closed, it also applies the
 * changes made after its start.
 * @throws KeyError ERR_PKI_DIR; MasterError ERR_MASTER_STOPPED for the keys of a cluster
 */
export async function openOfflineKeys(config: MasterConfig): Promise<OfflineKeys> {
  if (config.cluster !== null) {
    throw new MasterError(
      'ERR_MASTER_STOPPED',
      'the keys of a cluster are in its store; start this master, or use a running member',
    );
  }
  const keys = await openConfiguredKeys(new LiveConfig(config));
  const generator = new KeyGenerator(config.limits.keyBits);
  return {
    keys: createKeysApi({
      keys,
      hashType: config.hashType,
      protocolOf: () => 0,
      unpin: (id) => unpin(config, id),
      ownKeys: () => readOwnKeys(config),
      generator,
    }),
    close: async () => {
      await generator.close();
      await keys.close();
    },
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

/** Returns the master's public keys that exist. Does not create missing ones. */
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
