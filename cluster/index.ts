/**
 * Clusters of masters that share a replicated log: members, creation of clusters and shared state.
 */

export type { TransactionLog } from './log/transaction-log.ts';
export {
  type ClusterReceipt,
  initCluster,
  joinCluster,
  leaveCluster,
  type RefoundReceipt,
  type RestorePoint,
  refoundCluster,
} from './offline-cluster.ts';
export { openMember } from './open-member.ts';
export { copyMaster, exportStore, importStore, type TransferReceipt } from './store-transfer.ts';
