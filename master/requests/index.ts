export type { TargetBounds } from '../users/index.ts';
export {
  actorOf,
  type ExtensionHost,
  type MasterExtension,
  type OpenExtension,
  openExtensions,
  type SharedArea,
  type SignalIntake,
  type StateArea,
  type StateChange,
  type StateOperation,
  type TokenHolder,
} from './extensions.ts';
export type { TopsProvider } from './minion-requests.ts';
export { createRequestLimits, type RequestLimits } from './request-limits.ts';
export {
  createRequests,
  createSignIn,
  dataRequests,
  eventRequests,
  fileRequests,
  jobRequests,
  masterRequests,
  peerRequests,
  type Requests,
} from './requests.ts';
