export { namesATag } from './compile-rule.ts';
export { compileJsonSchema, type SchemaProblem } from './data-schema.ts';
export {
  boundNames,
  decide,
  hasRules,
  isGrantable,
  mayCallCommand,
  textOf,
} from './decide.ts';
export {
  PolicyError,
  type PolicyErrorCode,
  type PolicyErrorEntry,
  policyErrors,
} from './errors.ts';
export { type Explanation, explain, type NearRule } from './explain.ts';
export {
  type ArgumentCondition,
  type FunctionGrant,
  type Grant,
  type GrantSyntax,
  type Pattern,
  parseGrants,
} from './grants.ts';
export { isOwnLifecycle } from './lifecycle-signals.ts';
export { type LintFinding, lintPolicy } from './lint.ts';
export { isMastersTag } from './masters-tags.ts';
export { parseRule } from './parse-rule.ts';
export { literalGlob } from './patterns.ts';
export { createPolicy, type Policy } from './policy.ts';
// Shared with other rooms of this package; no promise.
/** @internal */
export { parseRate, RateMeter } from './rate.ts';
export { type CallToBe, type Reach, type ReachQuestion, reachOf } from './reach.ts';
export { type GrantedRights, rightsOfUser } from './rights-of-user.ts';
export {
  type ArgumentPattern,
  allow,
  type CallPattern,
  type CommandPattern,
  deny,
  type MinePattern,
  type PolicyRule,
  type PublishPattern,
  type ResourcePatterns,
  type RuleAction,
  type RuleBase,
  type SignalPattern,
  type SubjectPattern,
  type TextPattern,
  type TextPatterns,
} from './rule.ts';
export { grantRules } from './salt-grants.ts';
export { schemaKeywords } from './schema-keywords.ts';
export type { MinionTest, PolicySyntax, PolicyWorld, TextTest } from './syntax.ts';
export type {
  Action,
  Call,
  CommandResource,
  Decision,
  EventResource,
  KeystoneEntity,
  MineResource,
  MinionSubject,
  NamedSubject,
  ProjectSubject,
  PublishResource,
  Question,
  ReturnResource,
  RuleOrigin,
  Subject,
  UserSubject,
} from './types.ts';
export { isUnlimited } from './unlimited.ts';
export {
  type RightsWarning,
  readUserRights,
  type UserRightOptions,
  type UserRights,
} from './user-rights.ts';
