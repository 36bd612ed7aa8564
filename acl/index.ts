export { decide } from './decide.ts';
export {
  type ArgumentCondition,
  type FunctionGrant,
  type Grant,
  type GrantSyntax,
  type Pattern,
  parseGrants,
} from './grants.ts';
export type {
  Call,
  Decision,
  EventResource,
  MinionSubject,
  PublishResource,
  Question,
  ReturnResource,
} from './types.ts';
