import type { FixedConfig } from '#config';
import type { ClusterApi } from './api/index.ts';
import type { SharedKeySource } from './auth/index.ts';
import type { MasterContext, SharedStore, SharedStoreOptions } from './context/index.ts';
import type { JobsOfMembers } from './jobs/index.ts';

/** A member of a cluster whose store is open. */
export interface ClusterMember extends SharedStore {
  readonly keys: SharedKeySource;
  readonly jobs: JobsOfMembers;
  /** Creates the interface `cluster`, and lets masters join that show a ticket. */
  createApi(config: FixedConfig, context: MasterContext): ClusterApi;
}

/** Opens the store of a member of a cluster, before all other modules. */
export interface StoreProvider {
  /** @throws StoreError */
  open(options: SharedStoreOptions): Promise<ClusterMember>;
}
