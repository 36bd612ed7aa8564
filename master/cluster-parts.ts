import type { FixedConfig } from '#config';
import type { ClusterApi } from './api/index.ts';
import type { SharedKeySource } from './auth/index.ts';
import type { MasterContext, SharedStore, SharedStoreOptions } from './context/index.ts';
import type { JobsOfMembers } from './jobs/index.ts';

/** Member of a cluster whose store is open. */
export interface ClusterMember extends SharedStore {
  readonly keys: SharedKeySource;
  readonly jobs: JobsOfMembers;
  /** Creates the cluster interface, and accepts join requests with a ticket. */
  createApi(config: FixedConfig, context: MasterContext): ClusterApi;
}

/** Opens the store of a cluster member, before all other modules. */
export interface StoreProvider {
  /**
   * Opens the store.
   * @throws StoreError
   */
  open(options: SharedStoreOptions): Promise<ClusterMember>;
}
