export type { CallGate } from './call-gate.ts';
export {
  type Cluster,
  clusterPlaceOf,
  deriveClusterKey,
  openCluster,
  openClusterLog,
  readSecret,
  secretBytes,
} from './cluster.ts';
export { createContext, type MasterContext } from './context.ts';
export { followRows } from './follow-rows.ts';
export { type HeldRow, HeldRows, type Hold } from './held-rows.ts';
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
} from './join-frames.ts';
export { JoinService } from './join-service.ts';
export { ownPrefix } from './own-store.ts';
export { versionOf } from './versions.ts';
