/** Several masters of one process, each with a configuration directory of its own. */
import path from 'node:path';
import { ConfigError } from './errors.ts';
import { type LoadedConfig, loadMasterConfig } from './load.ts';
import { findSharedBetween } from './tenant-conflicts.ts';

/** A tenant: a master beside others, with nothing in common with them. */
export interface Tenant extends LoadedConfig {
  readonly name: string;
  /** Its configuration directory. */
  readonly directory: string;
}

/** What {@link loadTenants} found. */
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
  const main = await loadMasterConfig(directory);
  const tenants: Tenant[] = [];
  for (const [name, given] of Object.entries(main.config.tenants)) {
    const own = path.resolve(directory, given);
    tenants.push({ name, directory: own, ...(await loadMasterConfig(own)) });
  }
  const problem = findUnfit(main, tenants) ?? (await findSharedBetween(tenants));
  if (problem === undefined) return { ...main, tenants };
  const origin = { file: main.config.confFile, line: 0, key: 'saltbridge:tenants' };
  throw new ConfigError('ERR_OPTION_CONFLICT', origin, problem);
}

/** What is the process's and not a tenant's. */
function findUnfit({ config }: LoadedConfig, tenants: readonly Tenant[]): string | undefined {
  for (const { name, config: own } of tenants) {
    const whose = `${name} (${own.confFile})`;
    if (Object.keys(own.tenants).length > 0) return `${whose} has tenants itself`;
    if (own.user !== null && own.user !== config.user) {
      return `user of ${whose} is another one than the process's (${config.confFile})`;
    }
  }
  return undefined;
}
