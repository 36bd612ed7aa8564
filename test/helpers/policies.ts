import {
  createPolicy,
  type MinionTest,
  type Policy,
  type PolicyEnvironment,
  type PolicyRule,
} from '#acl';
import { policySyntax } from '#config';
import { AuditBursts } from '#master';
import { noAudit } from '#master/audit/audit-record.ts';
import { PolicyGate } from '#master/users/policy-gate.ts';
import { compileRightTarget } from '#minion-protocol';

/** Data that the policy of a test can use. */
export interface PolicyFixture {
  /** Pillar values of minions, by path. */
  readonly pillar?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Returns the predicate of a target. By default only the ids of minions are known. */
  readonly target?: (tgt: string, tgtType: string) => MinionTest;
  /** Project of a guest. Default: no minion is a guest. */
  readonly projectOf?: (id: string) => string | undefined;
  /** Milliseconds since 1970. Default: 0. */
  readonly now?: () => number;
}

/** Returns the dependencies of a policy in a test. Patterns are compiled as in a master. */
function policyPolicyFixture({
  pillar = {},
  target = idTargets,
  projectOf = () => undefined,
  now = () => 0,
}: PolicyFixture = {}): PolicyEnvironment {
  return {
    ...policySyntax,
    target,
    pillarOf: (id, path) => pillar[id]?.[path],
    projectOf,
    now,
  };
}

/** Compiles a policy from rules. */
export function policyOf(rules: readonly PolicyRule[], world: PolicyFixture = {}): Policy {
  return createPolicy(rules, policyPolicyFixture(world));
}

/** Compiles a target. Nothing is known about minions except their ids. */
function idTargets(tgt: string, tgtType: string): MinionTest {
  const compiled = compileRightTarget({ tgt, tgtType }, {});
  const facts = { grains: undefined, pillar: undefined };
  const isMeant = (id: string): boolean => compiled.test({ id, facts }) === 'yes';
  return { isEntitled: isMeant, claims: isMeant, mayMean: isMeant };
}

/**
 * Returns the interface through which request handlers use a policy. Denials are not reported to
 * anything.
 */
export function gateOf(policy: Policy): PolicyGate {
  const ruled = new AuditBursts({ audit: noAudit, now: () => 0 });
  const config = { current: { acl: { mode: 'enforce', learnActions: [] } } } as const;
  const recorder = { note: () => {} };
  return new PolicyGate({ policy: { current: policy }, config, ruled, recorder });
}
