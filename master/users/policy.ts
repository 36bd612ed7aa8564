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
   * Compiled policies for tokens that store the rights of their users. The key consists of the
   * backend and the stored rights.
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

  /** Current policy. Each reload of the configuration replaces it. */
  get current(): Policy {
    return this.#policy;
  }

  /**
   * Function that returns the id of the project for which a minion was enrolled. Policy rules about
   * projects use it. Default: no minion belongs to a project.
   */
  set projectOf(find: (id: string) => string | undefined) {
    this.#projectOf = find;
  }

  /**
   * Functions that the current policy uses: target matching, minions' pillar and projects, and the
   * clock.
   */
  get world(): PolicyEnvironment {
    return this.#world(this.#config.nodegroups);
  }

  /**
   * Compiles the policy of another configuration. The current policy stays in force.
   * @returns a function that makes the new policy current
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
   * Returns the current policy with other permissions for the users of one backend: `rights`
   * replaces the entries of that backend in `external_auth`. Use the result only for the user of
   * the token that stores these rights (`keep_acl_in_token`).
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
 * Returns the value at a path in a minion's pillar as text. Returns `undefined` if the value is
 * neither a string nor a number.
 * @param path - keys, separated by colons
 */
function pillarText({ pillar }: MinionFacts, path: string): string | undefined {
  const [first = '', ...rest] = path.split(':');
  const value = traverseFacts(pillar?.get(first), rest);
  if (value instanceof Float) return pythonStr(value);
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
}
