export { isLifecycleDecision, isReservedTag } from './built-in-rules.ts';
export { isSpecificTagGlob } from './compile-rule.ts';
export { compileJsonSchema, type SchemaProblem, schemaKeywords } from './data-schema.ts';
export {
  builtInDenyNames,
  decide,
  type Explanation,
  explain,
  hasRules,
  type IntendedCall,
  isGrantable,
  isUnlimited,
  mayCallCommand,
  type NearRule,
  questionText,
  type Reach,
  type ReachQuestion,
  reachOf,
} from './decide.ts';
export {
  PolicyError,
  type PolicyErrorCode,
  type PolicyErrorEntry,
  policyErrors,
} from './errors.ts';
export { type LintFinding, lintPolicy } from './lint.ts';
export {
  literalGlob,
  type MinionTest,
  type PolicyEnvironment,
  type PolicySyntax,
  type TextTest,
} from './patterns.ts';
export { createPolicy, type Policy } from './policy.ts';
// Shared with other rooms of this package; no promise.
/** @internal */
export { parseRate, RateLimiter } from './rate.ts';
export {
  type ArgumentPattern,
  allow,
  type CallPattern,
  type CommandPattern,
  deny,
  type MinePattern,
  type PolicyRule,
  type PublishPattern,
  parseRule,
  type ResourcePatterns,
  type RuleAction,
  type RuleBase,
  type SignalPattern,
  type SubjectPattern,
  type TextPattern,
  type TextPatterns,
} from './rule.ts';
export {
  type ArgumentCondition,
  type FunctionGrant,
  type Grant,
  type GrantedRights,
  type GrantPattern,
  type GrantSyntax,
  grantRules,
  parseGrants,
  type RightsWarning,
  readUserRights,
  rightsOfUser,
  type UserRightOptions,
  type UserRights,
} from './salt-rights.ts';
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
