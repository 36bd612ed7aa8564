export { decide } from './decide.ts';
export {
  createSignalPolicy,
  isMastersTag,
  type SignalGrant,
  type SignalPolicy,
} from './signal-policy.ts';
export type {
  Decision,
  EventResource,
  MinionSubject,
  Question,
  ReturnResource,
} from './types.ts';
