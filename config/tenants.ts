/** Several masters of one process, each with a configuration directory of its own. */

import path from 'node:path';
import { ConfigError } from './config-error.ts';
import { checkMasterConfig, type LoadedConfig } from './load.ts';
import { findSharedBetween } from './shared-resources.ts';

/** A tenant: a master beside others, with nothing in common with them. */
interface Tenant extends SaltConfig {
  readonly name: string;
}

/** A configuration directory that was read. */
export interface SaltConfig extends LoadedConfig {
  readonly directory: string;
  /** The masters whose directories it names (`saltbridge: tenants`). Absent: it is one master's. */
  readonly tenants?: readonly (SaltConfig & { readonly name: string })[];
}

/**
 * Reads Salt's master configuration from a directory such as `/etc/salt`, and those of the tenants
 * that it names. Options that have no effect are `warnings`.
 * @throws ConfigError, see docs/errors.md
 */
export async function loadSaltConfig(directory: string): Promise<SaltConfig> {
  const { tenants, ...loaded } = await loadTenants(directory);
  return { ...loaded, directory, ...(tenants.length === 0 ? {} : { tenants }) };
}

export interface LoadedTenants extends LoadedConfig {
  /** Empty where the directory is that of one master. */
  readonly tenants: readonly Tenant[];
}

/**
 * Reads a configuration directory, and those of the tenants that it names under `saltbridge:`,
 * all or nothing.
 * @throws ConfigError, see `configErrors`; ERR_OPTION_CONFLICT where two tenants share what each
 * must have for itself
 */
export async function loadTenants(directory: string): Promise<LoadedTenants> {
  const main = await checkMasterConfig(directory);
  const mistakes = [...main.problems];
  const tenants: Tenant[] = [];
  for (const [name, given] of Object.entries(main.config.tenants)) {
    const own = path.resolve(directory, given);
    const { config, warnings, files, problems } = await checkMasterConfig(own);
    tenants.push({ name, directory: own, config, warnings, files });
    mistakes.push(...problems);
  }
  const mistake = ConfigError.of(mistakes) ?? ConfigError.of(await conflictsBetween(main, tenants));
  if (mistake !== undefined) throw mistake;
  const { config, warnings, files } = main;
  return { config, warnings, files, tenants };
}

/** What is the process's and not a tenant's, and what tenants would share. */
async function conflictsBetween(
  { config }: LoadedConfig,
  tenants: readonly Tenant[],
): Promise<readonly ConfigError[]> {
  const unfit = tenants.flatMap(({ name, config: own }) => {
    const whose = `${name} (${own.confFile})`;
    const isOther = own.user !== null && own.user !== config.user;
    return [
      ...(Object.keys(own.tenants).length > 0 ? [`${whose} has tenants itself`] : []),
      ...(isOther
        ? [`user of ${whose} is another one than the process's (${config.confFile})`]
        : []),
    ];
  });
  const origin = { file: config.confFile, line: 0, key: 'saltbridge:tenants' };
  return [...unfit, ...(await findSharedBetween(tenants))].map(
    (problem) => new ConfigError('ERR_OPTION_CONFLICT', origin, problem),
  );
}
