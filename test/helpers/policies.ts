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

/** What a policy of a test knows. */
export interface PolicyFixture {
  /** Pillar of minions, by path. */
  readonly pillar?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** What a target says of each minion; default: nothing is known of any but its id. */
  readonly target?: (tgt: string, tgtType: string) => MinionTest;
  /** Project of a guest. Default: no minion is a guest. */
  readonly projectOf?: (id: string) => string | undefined;
  /** Milliseconds since 1970. Default: 0. */
  readonly now?: () => number;
}

/** The world of a policy in a test: patterns are those of a master. */
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

/** A policy of these rules. */
export function policyOf(rules: readonly PolicyRule[], world: PolicyFixture = {}): Policy {
  return createPolicy(rules, policyPolicyFixture(world));
}

/** Targets where nothing is known of minions but their ids. */
function idTargets(tgt: string, tgtType: string): MinionTest {
  const compiled = compileRightTarget({ tgt, tgtType }, {});
  const facts = { grains: undefined, pillar: undefined };
  const isMeant = (id: string): boolean => compiled.test({ id, facts }) === 'yes';
  return { isEntitled: isMeant, claims: isMeant, mayMean: isMeant };
}

/** What handlers of minions' requests ask, with nobody to tell. */
export function gateOf(policy: Policy): PolicyGate {
  const ruled = new AuditBursts({ audit: noAudit, now: () => 0 });
  const config = { current: { acl: { mode: 'enforce', learnActions: [] } } } as const;
  const recorder = { note: () => {} };
  return new PolicyGate({ policy: { current: policy }, config, ruled, recorder });
}
