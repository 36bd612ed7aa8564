/**
 * Replaces options of a configuration by the options of a bundle: the configuration that a centre
 * publishes for its sites.
 */

import type { ConfigError } from './config-error.ts';
import type { OptionTable } from './option.ts';
import type { MasterConfig } from './options.ts';
import { ownOptions } from './own-options.ts';
import { completeSettings } from './read-config.ts';
import { saltOptions } from './salt-options.ts';
import { isSettings, type Settings } from './settings.ts';

/** Configuration with replaced options, and the mistakes in them. */
export interface OverlaidConfig {
  readonly config: MasterConfig;
  readonly problems: readonly ConfigError[];
}

/**
 * Replaces options of a configuration. Each option in `settings` replaces the previous value
 * completely. Only `bridge` is merged: sections of `bridge` that are not in `settings` are kept.
 * @param settings - new options
 * @param mainFile - path of the file that contains the new options
 */
export function overlayConfig(
  base: MasterConfig,
  settings: Settings,
  mainFile: string,
): OverlaidConfig {
  const { config: given, problems } = completeSettings(settings, mainFile);
  const ownSetting = settings.get('saltbridge')?.value;
  const own: Settings = isSettings(ownSetting) ? ownSetting : new Map();
  const members = new Set([...membersOf(saltOptions, settings), ...membersOf(ownOptions, own)]);
  if (own.has('acl')) members.add('acl');
  const replaced = Object.entries(given).filter(([name]) => members.has(name));
  const whole: MasterConfig = { ...base, ...Object.fromEntries(replaced) };
  const bridge = members.has('bridge') ? mergeBridge(base.bridge, given.bridge) : base.bridge;
  return { config: Object.freeze({ ...whole, bridge }), problems };
}

function membersOf(table: OptionTable, settings: Settings): readonly string[] {
  return Object.entries(table)
    .filter(([, { name }]) => settings.has(name))
    .map(([member]) => member);
}

type Bridge = MasterConfig['bridge'];

/**
 * Replaces the given sections of `bridge` and keeps the others. The result has the prototype of
 * `base`, because `isDeepStrictEqual` compares prototypes.
 */
function mergeBridge(base: Bridge, given: Bridge): Bridge {
  if (base === null || given === null) return given ?? base;
  return Object.assign(Object.create(Object.getPrototypeOf(base)), base, given);
}
