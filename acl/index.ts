export {
  compileJsonSchema,
  isSpecificTagGlob,
  literalGlob,
  type MinionTest,
  type PolicyEnvironment,
  type PolicySyntax,
  rulePatternProblems,
  ruleProblems,
  schemaKeywords,
} from './compile-rule.ts';
export {
  builtInDenyNames,
  decide,
  type Explanation,
  explain,
  hasRules,
  type IntendedCall,
  isGrantable,
  isLifecycleDecision,
  isReservedTag,
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
  policyErrors,
} from './errors.ts';
export { type LintFinding, lintPolicy } from './lint.ts';
export { createPolicy, type Policy } from './policy.ts';
export { parseRate } from './rate.ts';
export {
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
  type Grant,
  type GrantSyntax,
  grantRules,
  parseGrants,
  readUserRights,
  rightsOfUser,
  type UserRightOptions,
  type UserRights,
} from './salt-rights.ts';
export type {
  Call,
  Decision,
  EventResource,
  KeystoneEntity,
  MinionSubject,
  ProjectSubject,
  Question,
  ReturnResource,
  RuleOrigin,
  Subject,
  UserSubject,
} from './types.ts';
