/** Every option that is served, with its value and where that comes from. */

import type { OptionOrigin } from './config-error.ts';
import { withoutCredentials } from './credentials.ts';
import type { CheckedConfig } from './load.ts';
import { loginOptions } from './login-options.ts';
import type { OptionTable } from './option.ts';
import { type MasterConfig, optionSections } from './options.ts';
import { aclOptions, limitOptions } from './own-options.ts';
import { fileNameOf } from './schema.ts';
import { isSettings, type Settings, toPlain } from './settings.ts';

/** An option in force. */
export interface OptionInForce {
  /** Names of keys from the top of a file: `['saltbridge', 'limits', 'burst']`. */
  readonly key: readonly string[];
  /** As a file says it; paths as they are used. Secrets are `(hidden)`. */
  readonly value: unknown;
  /** Absent: it is the default. */
  readonly origin?: Pick<OptionOrigin, 'file' | 'line'>;
}

/** In the order of the tables: Salt's options, then those under `saltbridge:`. */
export function listOptions({
  config,
  settings,
}: Pick<CheckedConfig, 'config' | 'settings'>): OptionInForce[] {
  return optionSections.flatMap(({ above, options }) => {
    const settingsAbove = above.reduce(sectionOf, settings);
    return rowsOf(above, options, valuesOf(options, config), settingsAbove);
  });
}

/** The values of a table: it is the configuration itself or one of its groups. */
export function valuesOf(options: OptionTable, config: MasterConfig): object {
  if (options === loginOptions) return config.eauth;
  if (options === limitOptions) return config.limits;
  return options === aclOptions ? config.acl : config;
}

function sectionOf(settings: Settings, name: string): Settings {
  const value = settings.get(name)?.value;
  return isSettings(value) ? value : new Map();
}

function rowsOf(
  above: readonly string[],
  options: OptionTable,
  values: object,
  settings: Settings,
): OptionInForce[] {
  const found = new Map<string, unknown>(Object.entries(values));
  return Object.entries(options).map(([member, { name, base }]) => {
    const setting = settings.get(name);
    const isSet = setting !== undefined && setting.value !== null;
    // Paths are shown as they are used, below `root_dir`.
    const isWritten = isSet && base !== 'root_dir';
    const value = isWritten ? toPlain(setting.value) : toFileNames(found.get(member));
    const { file, line } = setting?.origin ?? { file: '', line: 0 };
    return {
      key: [...above, name],
      value: hideSecrets(name, value),
      ...(isSet ? { origin: { file, line } } : {}),
    };
  });
}

/** Defaults that are maps have the names of programs. */
function toFileNames(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [fileNameOf(name, {}), toFileNames(inner)]),
  );
}

const hidden = '(hidden)';
const secretName =
  /(?:^|[._-])(?:pass|passphrase|password|passwd|bindpw|secret|sharedsecret|token|authorization|credentials?)$/i;

/** No password, also not in an address, and no header of a request. */
function hideSecrets(name: string, value: unknown): unknown {
  if (value === null || value === undefined || typeof value === 'boolean') return value ?? null;
  if (secretName.test(name) || name === 'headers') return hidden;
  if (typeof value === 'string') return withoutCredentials(value, hidden);
  if (Array.isArray(value)) return value.map((item) => hideSecrets('', item));
  if (typeof value !== 'object') return value;
  return Object.fromEntries(
    // The address of a repository may be a key.
    Object.entries(value).map(([inner, item]) => [
      withoutCredentials(inner, hidden),
      hideSecrets(inner, item),
    ]),
  );
}
