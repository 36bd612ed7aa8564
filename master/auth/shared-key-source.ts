import type { Logger } from 'pino';
import type { FixedConfig } from '#config';
import type { Store } from '#store';
import type { KeySource } from './key-changer.ts';
import type { KeyStore } from './key-store.ts';
import type { Seal } from './seal.ts';

/**
 * Key file of the master, and its new path. The file was moved because the cluster has a different
 * key.
 */
interface ReplacedKey {
  readonly file: string;
  readonly aside: string;
}

/**
 * Keys that all members of a cluster share. Code in the folder `cluster/` implements this
 * interface.
 */
export interface SharedKeySource {
  /**
   * Opens the cluster's seal.
   * @throws MasterError ERR_SEAL; StoreError ERR_CLUSTER_LOG
   */
  openSeal(store: Pick<Store, 'get'>): Promise<Seal>;
  /**
   * Writes the cluster's master keys to `pki_dir`. Renames existing files with different keys.
   * @returns the renamed files
   */
  writeOwnKeys(config: FixedConfig, store: Store): Promise<readonly ReplacedKey[]>;
  /** Returns the storage of the minions' keys, which are rows of the cluster's store. */
  minionKeys(store: Store): KeySource;
  /**
   * Copies the minions' keys of the cluster to `pki_dir`, now and after each change.
   * @throws KeyError ERR_PKI_DIR
   */
  mirror(
    config: FixedConfig,
    keys: KeyStore,
    log: Logger,
  ): Promise<{ close(): void | Promise<void> }>;
}
