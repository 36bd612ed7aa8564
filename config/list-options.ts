/** Lists every supported option with its value, and the location where it was set. */

import type { OptionOrigin } from './config-error.ts';
import { withoutCredentials } from './credentials.ts';
import type { CheckedConfig } from './load.ts';
import { loginOptions } from './login-options.ts';
import type { OptionTable } from './option.ts';
import { type MasterConfig, optionSections } from './options.ts';
import { aclOptions, limitOptions } from './own-options.ts';
import { fileNameOf } from './schema.ts';
import { type Settings, sectionOf, toPlain } from './settings.ts';

/** An option with its current value. */
export interface OptionInForce {
  /** Path of keys from the top of a file: `['saltbridge', 'limits', 'burst']`. */
  readonly key: readonly string[];
  /**
   * Value as it is written in a file, with absolute paths. Secrets are replaced with `(hidden)`.
   */
  readonly value: unknown;
  /** Location where the option was set. Absent if the option has its default. */
  readonly origin?: Pick<OptionOrigin, 'file' | 'line'>;
}

/**
 * Returns all options, in the order of the option tables: Salt's options first, then those under
 * `saltbridge:`.
 */
export function listOptions({
  config,
  settings,
}: Pick<CheckedConfig, 'config' | 'settings'>): OptionInForce[] {
  return optionSections.flatMap(({ above, options }) => {
    const settingsAbove = above.reduce(sectionOf, settings);
    return rowsOf(above, options, valuesOf(options, config), settingsAbove);
  });
}

/**
 * Returns the object whose members are the values of the options in a table. It is the
 * configuration itself, or its member `eauth`, `limits` or `acl`.
 */
export function valuesOf(options: OptionTable, config: MasterConfig): object {
  if (options === loginOptions) return config.eauth;
  if (options === limitOptions) return config.limits;
  return options === aclOptions ? config.acl : config;
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
    // Show paths as absolute paths below `root_dir`.
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

/**
 * Replaces the names of members in a default value by the names that they have in configuration
 * files.
 */
function toFileNames(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [fileNameOf(name, {}), toFileNames(inner)]),
  );
}

const hidden = '(hidden)';
const secretName =
  /(?:^|[._-])(?:pass|passphrase|password|passwd|bindpw|secret|sharedsecret|token|authorization|credentials?)$/i;

/** Hides passwords, including those in addresses, and request headers. */
function hideSecrets(name: string, value: unknown): unknown {
  if (value === null || value === undefined || typeof value === 'boolean') return value ?? null;
  if (secretName.test(name) || name === 'headers') return hidden;
  if (typeof value === 'string') return withoutCredentials(value, hidden);
  if (Array.isArray(value)) return value.map((item) => hideSecrets('', item));
  if (typeof value !== 'object') return value;
  return Object.fromEntries(
    // A key may be the address of a repository, which can contain a password.
    Object.entries(value).map(([inner, item]) => [
      withoutCredentials(inner, hidden),
      hideSecrets(inner, item),
    ]),
  );
}
