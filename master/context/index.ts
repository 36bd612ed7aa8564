export {
  decodeFrame,
  encodeFrame,
  frameKinds,
  type JoinReply,
  type JoinRequest,
  newExchangeKeys,
  openBody,
  parseTicket,
  publicKeyBytes,
  replyKey,
  sealBody,
  type Ticket,
} from '#cluster/join-frames.ts';
export { JoinService } from '#cluster/join-service.ts';
export {
  type Cluster,
  clusterPlaceOf,
  deriveClusterKey,
  openCluster,
  openClusterLog,
  readSecret,
  secretBytes,
} from '#cluster/open-cluster.ts';
export { versionOf } from '#cluster/versions.ts';
export type { CallGate } from './call-gate.ts';
export { createContext, type MasterContext } from './context.ts';
export { followRows } from './follow-rows.ts';
export { type HeldRow, HeldRows, type Hold } from './held-rows.ts';
export { ownPrefix } from './own-store.ts';
