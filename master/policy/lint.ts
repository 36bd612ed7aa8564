import { createPolicy, type LintFinding, lintPolicy } from '../../acl/index.ts';
import type { MasterConfig } from '../config/options.ts';
import { rulesOf } from '../config/policy-rules.ts';
import { policySyntax } from './syntax.ts';

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
