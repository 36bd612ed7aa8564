import type { Logger } from 'pino';
import { createPolicy, type LintFinding, lintPolicy } from '#acl';
import { formWorld, type MasterConfig, type ReloadableConfig, rulesOf } from '#config';
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

/** Policy of a master, the gate that applies it to requests, and the recorder of its decisions. */
export interface OpenPolicy {
  readonly policy: LivePolicy;
  /** Gate that decides about all requests of minions. */
  readonly gate: PolicyGate;
  /** Recorder of the policy's decisions about minions. */
  readonly decisions: DecisionRecorder;
}

/**
 * Creates the policy of a master.
 * @throws PolicyError
 */
export async function openPolicy(deps: PolicyDeps): Promise<OpenPolicy> {
  const { config, context, audit, auth, jobs } = deps;
  const { ownStore: store, now } = context;
  const decisions = context.closers.add(
    await DecisionRecorder.open({
      store,
      seal: auth.seal,
      storesValues: () => config.current.acl.recordData,
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

/**
 * Logs a warning if the policy is in learning mode, because it then does not protect the master.
 */
function logPolicyMode({ acl }: ReloadableConfig, log: Logger): void {
  const { mode, learnActions } = acl;
  if (mode !== 'learn') return;
  log.warn(
    { actions: learnActions },
    'the policy is in the mode `learn`: the master permits requests without a rule, and records them',
  );
}

/**
 * Returns findings about rules that have no effect, or an effect that differs from the rule's
 * apparent meaning. The master need not be running.
 * @param minionIds - ids of accepted minions, or `undefined` if they are unknown
 */
export function lintConfiguredPolicy(
  config: MasterConfig,
  minionIds: readonly string[] | undefined,
  now: () => number = Date.now,
): readonly LintFinding[] {
  // The check is only about the rules, so it does not need the facts of minions.
  return lintPolicy(createPolicy(rulesOf(config), { ...formWorld, now }), minionIds);
}
