import type { Logger } from 'pino';
import type { FixedConfig } from '#config';
import type { Store } from '#store';
import type { KeySource } from './key-moves.ts';
import type { KeyStore } from './key-store.ts';
import type { Seal } from './session-keys.ts';

/** A file of another master's key, and where it is now. */
interface ReplacedKey {
  readonly file: string;
  readonly aside: string;
}

/** Keys that all members of a cluster have. The room `cluster` implements it. */
export interface SharedKeySource {
  /** @throws MasterError ERR_SEAL; StoreError ERR_CLUSTER_LOG */
  openSeal(store: Pick<Store, 'get'>): Promise<Seal>;
  /**
   * Writes the cluster's own keys into `pki_dir`, and moves aside what differs there.
   * @returns what was moved
   */
  writeOwnKeys(config: FixedConfig, store: Store): Promise<readonly ReplacedKey[]>;
  /** Returns the minions' keys as rows of the store. */
  minionKeys(store: Store): KeySource;
  /** Keeps `pki_dir` as the keys of the cluster are. @throws KeyError ERR_PKI_DIR */
  mirror(
    config: FixedConfig,
    keys: KeyStore,
    log: Logger,
  ): Promise<{ close(): void | Promise<void> }>;
}
