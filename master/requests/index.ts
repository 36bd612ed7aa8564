export { coreRequests } from './core-requests.ts';
export { requestDigest } from './request-digest.ts';
export { createRequestLimits, FileMeter, type RequestLimits } from './request-limits.ts';
export {
  anyLoad,
  defineRequestType,
  type ProvenRequest,
  type RequestType,
  type RequestTypes,
} from './request-type.ts';
export { createRequests, createSignIn, type Requests } from './requests.ts';
export type { ReactionEvent, SignalIntake, TriggerEvent } from './signal-intake.ts';
