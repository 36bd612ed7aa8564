import type { Logger } from 'pino';
import type { FixedConfig } from '#config';
import type { Store } from '#store';
import type { KeySource } from './key-moves.ts';
import type { KeyStore } from './key-store.ts';
import type { Seal } from './session-keys.ts';

/** Key file of another master, with its new location. */
interface ReplacedKey {
  readonly file: string;
  readonly aside: string;
}

/** Keys that all members of a cluster share. The room `cluster` implements it. */
export interface SharedKeySource {
  /**
   * Opens the cluster's seal.
   * @throws MasterError ERR_SEAL; StoreError ERR_CLUSTER_LOG
   */
  openSeal(store: Pick<Store, 'get'>): Promise<Seal>;
  /**
   * Writes the cluster's own keys to `pki_dir`, and moves different files aside.
   * @returns the files that were moved
   */
  writeOwnKeys(config: FixedConfig, store: Store): Promise<readonly ReplacedKey[]>;
  /** Returns the minions' keys as rows of the store. */
  minionKeys(store: Store): KeySource;
  /**
   * Updates `pki_dir` with the keys of the cluster.
   * @throws KeyError ERR_PKI_DIR
   */
  mirror(
    config: FixedConfig,
    keys: KeyStore,
    log: Logger,
  ): Promise<{ close(): void | Promise<void> }>;
}
