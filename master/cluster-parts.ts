import type { FixedConfig } from '#config';
import type { ClusterApi } from './api/index.ts';
import type { SharedKeySource } from './auth/index.ts';
import type { MasterContext, SharedStore, SharedStoreOptions } from './context/index.ts';
import type { JobsOfMembers } from './jobs/index.ts';

/** Member of a cluster, with its opened store. */
export interface ClusterMember extends SharedStore {
  readonly keys: SharedKeySource;
  readonly jobs: JobsOfMembers;
  /**
   * Creates the cluster operations of the master's interface, and starts to accept join requests
   * that have a ticket.
   */
  createApi(config: FixedConfig, context: MasterContext): ClusterApi;
}

/** Opens the store of a cluster member, before all other modules are created. */
export interface StoreProvider {
  /**
   * Opens the store.
   * @throws StoreError
   */
  open(options: SharedStoreOptions): Promise<ClusterMember>;
}
