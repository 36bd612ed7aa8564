import { readUserRights, type UserRights } from '#acl';
import { compileWholePattern } from '#minion-protocol';
import { type ConfigWarning, type OptionOrigin, placeOf } from './config-error.ts';
import { isNarrowed } from './narrowed-patterns.ts';
import type { MasterConfig } from './options.ts';
import { isSettings, type Settings } from './settings.ts';

export type RightsConfig = Pick<
  MasterConfig,
  'externalAuth' | 'permissiveAcl' | 'publisherAcl' | 'publisherAclBlacklist'
>;

/** Returns the rights that a configuration grants to users. */
export function userRightsOf(config: RightsConfig): UserRights {
  return readUserRights(config, compileWholePattern);
}

/**
 * Returns warnings about rights that permit more than they seem to, less than in Salt, or nothing.
 */
export function warnOfRights(config: RightsConfig, settings: Settings): ConfigWarning[] {
  const { rules, warnings } = userRightsOf(config);
  const narrowed = new Set<string>();
  for (const { effect, name, resource } of rules) {
    const fun = 'fun' in resource ? resource.fun : [];
    const isShort = [fun].flat().some((it) => typeof it !== 'string' && isNarrowed(it.regex));
    if (effect === 'allow' && isShort) narrowed.add(name);
  }
  return [
    ...warnings.map(({ path, text }) => warning(path, text, settings)),
    ...[...narrowed].map((name) => {
      const text =
        'expressions must match whole functions here, but only their beginning in Salt: append .* to them';
      return warning(name.split(': '), text, settings);
    }),
  ];
}

function warning(path: readonly string[], text: string, settings: Settings): ConfigWarning {
  const origin = originOfRight(path, settings) ?? { file: 'options', line: 0, key: path.join(':') };
  return { kind: 'rights', ...origin, message: `${placeOf(origin)}: ${path.join(': ')}: ${text}` };
}

/**
 * Returns the location in the configuration at which a right is set. If the right is not set,
 * returns the location of the nearest key above it.
 */
export function originOfRight(
  [name = '', ...rest]: readonly string[],
  settings: Settings,
): OptionOrigin | undefined {
  const setting = settings.get(name);
  const inner = isSettings(setting?.value) ? originOfRight(rest, setting.value) : undefined;
  return inner ?? setting?.origin;
}
