export {
  actorOf,
  type ExtensionHost,
  type MasterExtension,
  type OpenExtension,
  openExtensions,
  type SignalIntake,
  type StateArea,
  type StateEntry,
  type StateOperation,
  type TargetBounds,
  type TokenHolder,
} from './extensions.ts';
export type { DenialLog } from './minion-event.ts';
export type { Tops, TopsProvider, TopsRequest } from './minion-requests.ts';
export { ReplayCache } from './replay-cache.ts';
export { openRequests, type Requests } from './requests.ts';
