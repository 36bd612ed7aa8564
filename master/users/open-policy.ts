/** Opens the policy of a master. */

import type { Logger } from 'pino';
import { createPolicy, type LintFinding, lintPolicy } from '#acl';
import { type MasterConfig, policySyntax, type ReloadableConfig, rulesOf } from '#config';
import type { Audit } from '../audit/index.ts';
import type { Auth } from '../auth/index.ts';
import { type ModuleDeps, versionOf } from '../context/index.ts';
import type { Jobs } from '../jobs/index.ts';
import { DecisionRecorder } from './decisions.ts';
import { LivePolicy } from './policy.ts';
import { PolicyGate } from './policy-gate.ts';

export interface PolicyDeps extends ModuleDeps {
  readonly audit: Audit;
  readonly auth: Auth;
  readonly jobs: Jobs;
}

/** What decides, and asks. */
export interface OpenPolicy {
  readonly policy: LivePolicy;
  /** Asked by every handler of minions' requests. */
  readonly gate: PolicyGate;
  /** What was decided about minions. */
  readonly decisions: DecisionRecorder;
}

/** @throws PolicyError */
export async function openPolicy(deps: PolicyDeps): Promise<OpenPolicy> {
  const { config, context, audit, auth, jobs } = deps;
  const { ownStore: store, now } = context;
  const decisions = context.closers.add(
    await DecisionRecorder.open({
      store,
      seal: auth.seal,
      keepsValues: () => config.current.acl.recordData,
      now,
      log: context.log.child({ component: 'audit' }),
    }),
    (it) => it.close(),
  );
  const { targets, facts } = jobs;
  const policy = new LivePolicy({ config, targets, factsOf: (id) => facts.rightsOf(id), now });
  const gate = new PolicyGate({ policy, config, ruled: audit.ruled, recorder: decisions });
  const log = context.log.child({ component: 'policy' });
  logPolicyMode(config.current, log);
  const announce = (): void => {
    const { all } = config;
    const content = [rulesOf(all), all.nodegroups, all.acl.mode, all.acl.learnActions];
    context.cluster?.announce('policy', versionOf(content));
  };
  announce();
  config.onChange((current) => {
    logPolicyMode(current, log);
    announce();
  });
  return { policy, gate, decisions };
}

/** A master that learns is no border: nobody may forget it. */
function logPolicyMode({ acl }: ReloadableConfig, log: Logger): void {
  const { mode, learnActions } = acl;
  if (mode !== 'learn') return;
  log.warn({ actions: learnActions }, 'acl is learning: what no rule permits is permitted');
}

/**
 * Rules of a configuration that do nothing, or not what they seem to. No master need run.
 * @param minionIds the accepted ones; `undefined`: not known
 */
export function lintConfiguredPolicy(
  config: MasterConfig,
  minionIds: readonly string[] | undefined,
  now: () => number = Date.now,
): readonly LintFinding[] {
  const nobody = (): boolean => false;
  const policy = createPolicy(rulesOf(config), {
    ...policySyntax,
    // What is known of minions is another question than what the rules say.
    target: () => ({ isEntitled: nobody, claims: nobody, mayMean: nobody }),
    pillarOf: () => undefined,
    now,
  });
  return lintPolicy(policy, minionIds);
}
