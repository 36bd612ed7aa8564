/**
 * Finds rights whose target depends on grains and nothing else. Salt grants these rights. This
 * master does not grant them, because a minion can claim any grain.
 */

import { grainsGiveNoRight, type PolicyRule } from '#acl';
import { compileRightTarget } from '#minion-protocol';
import { type ConfigWarning, placeOf } from './config-error.ts';
import type { MasterConfig } from './options.ts';
import { compilePermissions } from './permissions.ts';
import type { Settings } from './settings.ts';
import { originOfRight, userRightsOf } from './user-rights.ts';

/**
 * Returns a warning for each target in `peer`, `external_auth` and rules that tests nothing but
 * grains. Minions report their grains themselves, so such a target gives no right.
 */
export function warnOfGrainRights(config: MasterConfig, settings: Settings): ConfigWarning[] {
  const restsOnGrains = (target: string): boolean => {
    try {
      const request = { tgt: target, tgtType: 'compound' };
      return compileRightTarget(request, config.nodegroups).restsOnGrains;
    } catch {
      // The check of the rights reports expressions that cannot be read.
      return false;
    }
  };
  const found = [
    ...peerTargets(config),
    ...ruleTargets(userRightsOf(config).rules, (name) => name.split(': ')),
    ...ruleTargets(config.acl.rules, (name) => ['saltbridge', 'acl', 'rules', name]),
  ];
  const unique = new Map(found.map((it) => [JSON.stringify([it.path, it.target]), it]));
  return [...unique.values()]
    .filter(({ target }) => restsOnGrains(target))
    .map(({ path, target }) => {
      const origin = originOfRight(path, settings) ?? {
        file: 'options',
        line: 0,
        key: path.join(':'),
      };
      const message = `${placeOf(origin)}: ${path.join(': ')}: ${target}: ${grainsGiveNoRight}`;
      return { kind: 'narrowed', ...origin, message };
    });
}

/**
 * Target that limits a right. `path` contains the keys that lead to this right in the
 * configuration.
 */
interface RightTarget {
  readonly path: readonly string[];
  readonly target: string;
}

function peerTargets({ peer }: Pick<MasterConfig, 'peer'>): RightTarget[] {
  return Object.entries(peer).flatMap(([id, list]) =>
    compilePermissions({ [id]: list }, 'target').flatMap(({ functions }) =>
      functions.flatMap(({ within: target }) =>
        target === undefined ? [] : [{ path: ['peer', id], target }],
      ),
    ),
  );
}

function ruleTargets(
  rules: readonly PolicyRule[],
  pathOf: (name: string) => readonly string[],
): RightTarget[] {
  return rules.flatMap(({ effect, name, resource }) => {
    const target = 'within' in resource ? resource.within : undefined;
    return effect === 'deny' || target === undefined ? [] : [{ path: pathOf(name), target }];
  });
}
