import { createSignalPolicy, type SignalPolicy } from '../../acl/index.ts';
import { compileGlob } from '../../minion-protocol/index.ts';
import type { SignalRule } from '../config/options.ts';

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
