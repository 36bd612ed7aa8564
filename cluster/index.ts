/**
 * Clusters of masters that share a replicated log: members, creation of clusters and shared state.
 */

export { joinCluster } from './join-cluster.ts';
export type { TransactionLog } from './log/transaction-log.ts';
export { type ClusterReceipt, initCluster, leaveCluster } from './offline-cluster.ts';
export { openMember } from './open-member.ts';
export { type RefoundReceipt, type RestorePoint, refoundCluster } from './refound-cluster.ts';
export { copyMaster, exportStore, importStore, type TransferReceipt } from './store-transfer.ts';
