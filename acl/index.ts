export { isSpecificTagGlob } from './compile-rule.ts';
export { compileJsonSchema, type SchemaProblem, schemaKeywords } from './data-schema.ts';
export { builtInDenyNames, decide, hasRules, isGrantable, mayCallCommand, questionText, type Explanation, explain, type NearRule, type IntendedCall, type Reach, type ReachQuestion, reachOf, isUnlimited } from './decide.ts';
export {
  PolicyError,
  type PolicyErrorCode,
  type PolicyErrorEntry,
  policyErrors,
} from './errors.ts';
export { type ArgumentCondition, type FunctionGrant, type Grant, type GrantSyntax, type GrantPattern, parseGrants, type GrantedRights, rightsOfUser, grantRules, type RightsWarning, readUserRights, type UserRightOptions, type UserRights } from './salt-rights.ts';
export { isLifecycleDecision, isReservedTag } from './built-in-rules.ts';
export { type LintFinding, lintPolicy } from './lint.ts';
export { parseRule, type ArgumentPattern, allow, type CallPattern, type CommandPattern, deny, type MinePattern, type PolicyRule, type PublishPattern, type ResourcePatterns, type RuleAction, type RuleBase, type SignalPattern, type SubjectPattern, type TextPattern, type TextPatterns } from './rule.ts';
export { literalGlob, type MinionTest, type PolicySyntax, type PolicyEnvironment, type TextTest } from './patterns.ts';
export { createPolicy, type Policy } from './policy.ts';
// Shared with other rooms of this package; no promise.
/** @internal */
export { parseRate, RateLimiter } from './rate.ts';
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
