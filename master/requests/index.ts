export {
  actorOf,
  type ExtensionHost,
  type MasterExtension,
  type OpenExtension,
  openExtensions,
  type SignalIntake,
  type StateArea,
  type StateOperation,
  type TargetBounds,
  type TokenHolder,
} from './extensions.ts';
export type { DenialLog } from './handlers.ts';
export type { TopsProvider } from './minion-requests.ts';
export { ReplayCache } from './replay-cache.ts';
export { openRequests, type Requests } from './requests.ts';
