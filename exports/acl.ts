/**
 * `saltbridge/acl`: compiles the rules of a policy and evaluates them. Does no I/O.
 *
 * @packageDocumentation
 */

export {
  allow as allowRule,
  type Call,
  type CallPattern,
  type CommandPattern,
  createPolicy,
  type Decision,
  decide as decideQuestion,
  deny as denyRule,
  type Explanation,
  explain as explainDecision,
  type LintFinding,
  lintPolicy,
  type MinePattern,
  type MinionTest,
  type NearRule,
  type Policy,
  type PolicyEnvironment,
  PolicyError,
  type PolicyErrorCode,
  type PolicyRule,
  type PolicySyntax,
  type PublishPattern,
  parseRule,
  type Question,
  type ResourcePatterns,
  type RuleAction,
  type RuleBase,
  type RuleOrigin,
  type SignalPattern,
  type Subject,
  type SubjectPattern,
  type TextPattern,
} from '#acl';
