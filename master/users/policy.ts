import { createPolicy, type Policy, type PolicyEnvironment } from '#acl';
import { dialectOf, type LiveConfig, type MasterConfig, policySyntax, rulesOf } from '#config';
import { type MinionFacts, type Nodegroups, pythonStr, traverseFacts } from '#minion-protocol';
import { createBoundedMap } from '#runtime';
import { Float } from '#template/python/values.ts';
import type { TargetResolver } from '../jobs/index.ts';
import { userLimits } from './limits.ts';

export interface LivePolicyOptions {
  readonly config: LiveConfig;
  readonly targets: Pick<TargetResolver, 'compileRight'>;
  readonly factsOf: (id: string) => MinionFacts;
  readonly now: () => number;
}

/** Policy of a running master. It is compiled at the start and at each reload. */
export class LivePolicy {
  readonly #options: Omit<LivePolicyOptions, 'config'>;
  #policy: Policy;
  #config: MasterConfig;
  #projectOf: (id: string) => string | undefined = () => undefined;
  /**
   * Policies for tokens that store the rights of their users. The key represents the stored rights.
   */
  readonly #ofTokens = createBoundedMap<string, Policy>(userLimits.policiesOfTokens);

  /**
   * Compiles the policy.
   * @throws PolicyError
   */
  constructor({ config, ...options }: LivePolicyOptions) {
    this.#options = options;
    this.#config = config.all;
    this.#policy = this.#compile(config.all);
    config.beforeChange((next) => this.#prepare(next));
  }

  /** Current policy. */
  get current(): Policy {
    return this.#policy;
  }

  /** Sets the function that returns the project of a guest. Default: no minion is a guest. */
  set projectOf(find: (id: string) => string | undefined) {
    this.#projectOf = find;
  }

  /** Environment of the current policy: patterns, minions' pillar and projects, and the clock. */
  get world(): PolicyEnvironment {
    return this.#world(this.#config.nodegroups);
  }

  /**
   * Compiles the policy of another configuration.
   * @returns a function that makes it the current policy
   * @throws PolicyError
   */
  #prepare(config: MasterConfig): () => void {
    const next = this.#compile(config);
    return () => {
      this.#policy = next;
      this.#config = config;
      this.#ofTokens.clear();
    };
  }

  /**
   * Returns the current policy, with the `external_auth` entries of one backend replaced by the
   * given entries. Use it only for the user of the token that stores these entries
   * (`keep_acl_in_token`).
   * @throws PolicyError
   */
  withRights(eauth: string, rights: readonly unknown[]): Policy {
    const key = JSON.stringify([eauth, rights]);
    const known = this.#ofTokens.get(key);
    if (known !== undefined) return known;
    const externalAuth = { ...this.#config.externalAuth, [eauth]: { '*': rights } };
    const policy = this.#compile({ ...this.#config, externalAuth });
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
      dialect: dialectOf(nodegroups),
      target: (tgt, tgtType) => targets.compileRight({ tgt, tgtType }, nodegroups),
      pillarOf: (id, path) => pillarText(factsOf(id), path),
      projectOf: (id) => this.#projectOf(id),
      now,
    };
  }
}

/**
 * Returns a value in a minion's pillar as text if it is a string or a number. Otherwise returns
 * `undefined`.
 */
function pillarText({ pillar }: MinionFacts, path: string): string | undefined {
  const [first = '', ...rest] = path.split(':');
  const value = traverseFacts(pillar?.get(first), rest);
  if (value instanceof Float) return pythonStr(value);
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
}
