/** Tenants: several masters in one process, each with its own configuration directory. */

import path from 'node:path';
import { ConfigError } from './config-error.ts';
import { checkMasterConfig, type LoadedConfig } from './load.ts';
import { findSharedBetween } from './shared-resources.ts';

/** Tenant: one of several independent masters in a process. */
interface Tenant extends SaltConfig {
  readonly name: string;
}

/** Configuration in a directory such as `/etc/salt`. */
export interface SaltConfig extends LoadedConfig {
  readonly directory: string;
  /**
   * Configurations of the tenants that `saltbridge: tenants` lists. Absent if the directory
   * configures a single master.
   */
  readonly tenants?: readonly (SaltConfig & { readonly name: string })[];
}

/**
 * Reads Salt's master configuration from a directory such as `/etc/salt`, and the configurations of
 * its tenants. `warnings` describes options without effect.
 * @throws ConfigError, see docs/errors.md
 */
export async function loadSaltConfig(directory: string): Promise<SaltConfig> {
  const { tenants, ...loaded } = await loadTenants(directory);
  return { ...loaded, directory, ...(tenants.length === 0 ? {} : { tenants }) };
}

export interface LoadedTenants extends LoadedConfig {
  /** Tenants. Empty if the directory configures a single master. */
  readonly tenants: readonly Tenant[];
}

/**
 * Reads a configuration directory, and the directories of the tenants that it lists under
 * `saltbridge:`.
 * @throws ConfigError if any of them is invalid, see `configErrors`; ERR_OPTION_CONFLICT if two
 * tenants share a resource that only one may use
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

/**
 * Returns conflicts between the configurations. A tenant must not set options that only the main
 * configuration may set, and tenants must not share resources.
 */
async function conflictsBetween(
  { config }: LoadedConfig,
  tenants: readonly Tenant[],
): Promise<readonly ConfigError[]> {
  const unfit = tenants.flatMap(({ name, config: own }) => {
    const whose = `${name} (${own.confFile})`;
    const isOther = own.user !== null && own.user !== config.user;
    return [
      ...(Object.keys(own.tenants).length > 0
        ? [`the configuration of ${whose} must not define tenants itself`]
        : []),
      ...(isOther
        ? [
            `the option \`user\` of ${whose} must have the same value as in ${config.confFile}, because all tenants run in one process`,
          ]
        : []),
    ];
  });
  const origin = { file: config.confFile, line: 0, key: 'saltbridge:tenants' };
  return [...unfit, ...(await findSharedBetween(tenants))].map(
    (problem) => new ConfigError('ERR_OPTION_CONFLICT', origin, problem),
  );
}
