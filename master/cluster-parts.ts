import type { FixedConfig } from '#config';
import type { ClusterApi } from './api/index.ts';
import type { SharedKeySource } from './auth/index.ts';
import type { MasterContext, SharedStore, SharedStoreOptions } from './context/index.ts';
import type { JobsOfMembers } from './jobs/index.ts';

/**
 * This master as a member of a cluster: its open store, and its exchange of keys and jobs with the
 * other members.
 */
export interface ClusterMember extends SharedStore {
  readonly keys: SharedKeySource;
  readonly jobs: JobsOfMembers;
  /**
   * Creates the cluster operations of the master's interface. Also starts to accept requests of new
   * members that have a ticket.
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
