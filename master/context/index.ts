export { CallGate } from './call-gate.ts';
export { Closers } from './closers.ts';
export type { Cluster, Duties, SharedStore, SharedStoreOptions } from './cluster.ts';
export { clusterPlaceOf } from './cluster-place.ts';
export { createContext, type MasterContext, type ModuleDeps, slots } from './context.ts';
export { followRows } from './follow-rows.ts';
export { ownPrefix } from './own-store.ts';
export { versionOf } from './version-of.ts';
