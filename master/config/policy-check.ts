/** Whether the rules of a configuration can be used: all of them, before anything takes effect. */
import { createPolicy, PolicyError, type PolicyRule, type PolicySyntax } from '../../acl/index.ts';
import { policySyntax } from '../policy/syntax.ts';
import { compileRightTarget } from '../targeting/resolve.ts';
import { ConfigError, type OptionOrigin } from './errors.ts';
import type { MasterConfig } from './options.ts';
import { rulesOf } from './policy-rules.ts';
import type { Settings } from './settings.ts';

/** @throws ConfigError ERR_OPTION_TYPE with the place of the rule that cannot be used */
export function checkPolicy(config: MasterConfig, acl: Settings): void {
  const target: PolicySyntax['target'] = (tgt, tgtType) => {
    compileRightTarget({ tgt, tgtType }, config.nodegroups);
    const nobody = (): boolean => false;
    return { isEntitled: nobody, claims: nobody, mayMean: nobody };
  };
  const world = { ...policySyntax, target, pillarOf: () => undefined, now: () => 0 };
  for (const rule of rulesOf(config)) {
    try {
      createPolicy([rule], world);
    } catch (cause) {
      if (!(cause instanceof PolicyError)) throw cause;
      throw new ConfigError('ERR_OPTION_TYPE', originOf(rule, acl), describe(cause, rule), {
        cause,
      });
    }
  }
}

/** Rules have places of their own; signals have that of the list. */
function originOf({ name, origin }: PolicyRule, acl: Settings): OptionOrigin {
  if (origin !== undefined) return { ...origin, key: `saltbridge:acl:rules:${name}` };
  return acl.get('signals')?.origin ?? { file: 'options', line: 0, key: 'acl' };
}

function describe({ message, field, problem }: PolicyError, { origin }: PolicyRule): string {
  return origin === undefined || field === '' ? message : `${field}: ${problem}`;
}
