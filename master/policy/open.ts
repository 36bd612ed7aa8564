/** The policy of a master, and who keeps account of what it decides. */
import type { Logger } from 'pino';
import { RuledDecisions } from '../audit/ruled-decisions.ts';
import type { Closers } from '../closers.ts';
import type { AclOptions, MasterConfig } from '../config/options.ts';
import type { Foundations } from '../foundations.ts';
import type { TargetResolver } from '../targeting/resolve.ts';
import { PolicyGate } from './gate.ts';
import { LivePolicy } from './live-policy.ts';

/** What it is made from. */
export interface PolicyParts {
  /** Its members change with a reload. */
  readonly config: MasterConfig;
  readonly foundations: Foundations;
  readonly targets: TargetResolver;
  readonly now: () => number;
  readonly log: Logger;
}

/** What decides, and asks. */
export interface OpenPolicy {
  readonly policy: LivePolicy;
  /** Asked by every handler of minions' requests. */
  readonly gate: PolicyGate;
  readonly ruled: RuledDecisions;
}

/** @throws PolicyError */
export function openPolicy(parts: PolicyParts, closers: Closers): OpenPolicy {
  const { config, foundations, targets, now, log } = parts;
  const policy = new LivePolicy({
    config,
    targets,
    factsOf: (id) => foundations.facts.rightsOf(id),
    now,
  });
  const { audit, decisions } = foundations;
  const ruled = closers.add(new RuledDecisions({ audit, now }), (it) => it.flush());
  const gate = new PolicyGate({
    policy: () => policy.current,
    options: () => config.acl,
    ruled,
    recorder: decisions,
  });
  tellMode(config.acl, log);
  return { policy, gate, ruled };
}

/** A master that learns is no border: nobody may forget it. */
export function tellMode({ mode, learnActions }: AclOptions, log: Logger): void {
  if (mode !== 'learn') return;
  log.warn({ actions: learnActions }, 'acl is learning: what no rule permits is permitted');
}
