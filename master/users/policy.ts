import { createPolicy, type Policy, type PolicyEnvironment } from '#acl';
import { type LiveConfig, type MasterConfig, policySyntax, rulesOf } from '#config';
import { type MinionFacts, type Nodegroups, pythonStr, traverseFacts } from '#minion-protocol';
import { Float } from '#template/python/values.ts';
import type { TargetResolver } from '../jobs/index.ts';

export interface LivePolicyOptions {
  readonly config: LiveConfig;
  readonly targets: Pick<TargetResolver, 'compileRight'>;
  readonly factsOf: (id: string) => MinionFacts;
  readonly now: () => number;
}

/** Policies that are remembered for tokens. */
const maxOfTokens = 100;

/** The policy of a running master: compiled at the start and at each reload, never between. */
export class LivePolicy {
  readonly #options: Omit<LivePolicyOptions, 'config'>;
  #policy: Policy;
  #config: MasterConfig;
  /** Policies of tokens that keep their rights, by these. */
  readonly #ofTokens = new Map<string, Policy>();

  /** @throws PolicyError */
  constructor({ config, ...options }: LivePolicyOptions) {
    this.#options = options;
    this.#config = config.all;
    this.#policy = this.#compile(config.all);
    config.beforeChange((next) => this.#prepare(next));
  }

  /** The policy in force. */
  get current(): Policy {
    return this.#policy;
  }

  /** What the rules look at besides the question, as it is now. */
  get world(): PolicyEnvironment {
    return this.#world(this.#config.nodegroups);
  }

  /** @returns puts what another configuration permits in force @throws PolicyError */
  #prepare(config: MasterConfig): () => void {
    const next = this.#compile(config);
    return () => {
      this.#policy = next;
      this.#config = config;
      this.#ofTokens.clear();
    };
  }

  /**
   * The policy in force, but for what `external_auth` grants to those whom `eauth` authenticated:
   * to them it is these entries. It is for one of them alone (`keep_acl_in_token`).
   * @throws PolicyError
   */
  withRights(eauth: string, rights: readonly unknown[]): Policy {
    const key = JSON.stringify([eauth, rights]);
    const known = this.#ofTokens.get(key);
    if (known !== undefined) return known;
    const externalAuth = { ...this.#config.externalAuth, [eauth]: { '*': rights } };
    const policy = this.#compile({ ...this.#config, externalAuth });
    if (this.#ofTokens.size >= maxOfTokens) this.#ofTokens.clear();
    this.#ofTokens.set(key, policy);
    return policy;
  }

  #compile(config: MasterConfig): Policy {
    return createPolicy(rulesOf(config), this.#world(config.nodegroups));
  }

  #world(nodegroups: Nodegroups): PolicyEnvironment {
    const { targets, factsOf, now } = this.#options;
    return {
      ...policySyntax,
      target: (tgt, tgtType) => targets.compileRight({ tgt, tgtType }, nodegroups),
      pillarOf: (id, path) => pillarText(factsOf(id), path),
      now,
    };
  }
}

/** A text or number in a minion's pillar; lists and maps stand for nothing. */
function pillarText({ pillar }: MinionFacts, path: string): string | undefined {
  const [first = '', ...rest] = path.split(':');
  const value = traverseFacts(pillar?.get(first), rest);
  if (value instanceof Float) return pythonStr(value);
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
}
