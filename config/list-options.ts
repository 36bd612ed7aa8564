/** Every option that is served, with its value and where that comes from. */

import type { OptionOrigin } from './config-error.ts';
import { withoutCredentials } from './credentials.ts';
import type { CheckedConfig } from './load.ts';
import { isSettings, type OptionKind, type Settings, toPlain } from './option-kinds.ts';
import {
  aclOptions,
  eauthOptions,
  limitOptions,
  type OptionTable,
  ownOptions,
  rightsOptions,
  saltOptions,
} from './option-table.ts';

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
  const own = sectionOf(settings, 'saltbridge');
  return [
    ...rowsOf([], saltOptions, config, settings),
    ...rowsOf([], rightsOptions, config, settings),
    ...rowsOf([], eauthOptions, config.eauth, settings),
    ...rowsOf(['saltbridge'], ownOptions, config, own),
    ...rowsOf(['saltbridge', 'limits'], limitOptions, config.limits, sectionOf(own, 'limits')),
    ...rowsOf(['saltbridge', 'acl'], aclOptions, config.acl, sectionOf(own, 'acl')),
  ];
}

function sectionOf(settings: Settings, name: string): Settings {
  const value = settings.get(name)?.value;
  return isSettings(value) ? value : new Map();
}

function rowsOf<T extends object>(
  above: readonly string[],
  table: OptionTable<T>,
  values: T,
  settings: Settings,
): OptionInForce[] {
  const rows: OptionInForce[] = [];
  for (const member in table) {
    const { name, kind } = table[member];
    const setting = settings.get(name);
    const isSet = setting !== undefined && setting.value !== null;
    const value = isSet && !isChanged(kind) ? toPlain(setting.value) : toFileNames(values[member]);
    const { file, line } = setting?.origin ?? { file: '', line: 0 };
    rows.push({
      key: [...above, name],
      value: hideSecrets(name, value),
      ...(isSet ? { origin: { file, line } } : {}),
    });
  }
  return rows;
}

/** Paths are put below `root_dir`. */
function isChanged({ isPath }: OptionKind<unknown>): boolean {
  return isPath;
}

/** Defaults that are maps have the names of programs. */
function toFileNames(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      toFileNames(inner),
    ]),
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
