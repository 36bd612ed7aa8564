import {
  createPolicy,
  type MinionTest,
  type Policy,
  type PolicyRule,
  type PolicyWorld,
} from '../../acl/index.ts';
import { policySyntax } from '../../master/policy/syntax.ts';

/** What a policy of a test knows. */
export interface World {
  /** Pillar of minions, by path. */
  readonly pillar?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** What a target says of each minion; default: it means nobody. */
  readonly target?: (tgt: string, tgtType: string) => MinionTest;
  /** Milliseconds since 1970. Default: 0. */
  readonly now?: () => number;
}

/** The world of a policy in a test: patterns are those of a master. */
function policyWorld({ pillar = {}, target, now = () => 0 }: World = {}): PolicyWorld {
  const nobody: MinionTest = { isEntitled: () => false, claims: () => false, mayMean: () => false };
  return {
    ...policySyntax,
    target: target ?? (() => nobody),
    pillarOf: (id, path) => pillar[id]?.[path],
    now,
  };
}

/** A policy of these rules. */
export function policyOf(rules: readonly PolicyRule[], world: World = {}): Policy {
  return createPolicy(rules, policyWorld(world));
}
