export { decide } from './decide.ts';
export {
  type ArgumentCondition,
  type FunctionGrant,
  type Grant,
  type GrantSyntax,
  type Pattern,
  parseGrants,
} from './grants.ts';
export {
  createSignalPolicy,
  isMastersTag,
  type SignalGrant,
  type SignalPolicy,
} from './signal-policy.ts';
export type {
  Call,
  Decision,
  EventResource,
  MinionSubject,
  PublishResource,
  Question,
  ReturnResource,
} from './types.ts';
