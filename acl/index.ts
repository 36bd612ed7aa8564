export { isSpecificTagGlob } from './compile-resource.ts';
export { compileJsonSchema, schemaKeywords } from './data-schema.ts';
export {
  builtInDenyNames,
  decide,
  hasRules,
  isAllowed,
  isGrantable,
  mayCallCommand,
  questionText,
} from './decide.ts';
export {
  PolicyError,
  type PolicyErrorCode,
  policyErrors,
} from './errors.ts';
export { type Explanation, explain, type NearRule } from './explain.ts';
export { grantRules } from './grant-rules.ts';
export { rightsOfUser } from './granted-rights.ts';
export { type LintFinding, lintPolicy } from './lint.ts';
export { isLifecycleDecision } from './own-signals.ts';
export { parseRule } from './parse-rule.ts';
export { createPolicy, type Policy } from './policy.ts';
export type { MinionTest, PolicyEnvironment, PolicySyntax } from './policy-syntax.ts';
export { grainsGiveNoRight } from './policy-syntax.ts';
export { parseRate } from './rate.ts';
export { type IntendedCall, type Reach, type ReachQuestion, reachOf } from './reach.ts';
export { isReservedTag } from './reserved-tags.ts';
export {
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
export { literalGlob, literalPrefix } from './rule-patterns.ts';
export { rulePatternProblems, ruleProblems } from './rule-problems.ts';
export { type Grant, type GrantSyntax, parseGrants } from './salt-grants.ts';
export { readUserRights, type UserRightOptions, type UserRights } from './salt-rights.ts';
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
export { isUnlimited, rulesInForce } from './unlimited.ts';
