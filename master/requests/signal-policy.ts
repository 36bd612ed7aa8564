import { createSignalPolicy, type SignalPolicy } from '../../acl/index.ts';
import { compileGlob } from '../../minion-protocol/index.ts';
import type { MasterConfig, SignalRule } from '../config/options.ts';

/** The policy in force, compiled anew when a reload has changed `saltbridge: acl: signals:`. */
export function signalPolicyOf(config: MasterConfig): () => SignalPolicy {
  let rules = config.acl.signals;
  let policy = compileSignalPolicy(rules);
  return () => {
    if (config.acl.signals === rules) return policy;
    rules = config.acl.signals;
    policy = compileSignalPolicy(rules);
    return policy;
  };
}

/** `saltbridge: acl: signals:` as the policy that is asked about each event of a minion. */
export function compileSignalPolicy(rules: readonly SignalRule[]): SignalPolicy {
  return createSignalPolicy(
    rules.map(({ tag, minions }) => ({
      name: `signals: ${tag}`,
      coversTag: compileGlob(tag),
      coversMinion: compileGlob(minions),
    })),
  );
}
