/** Loads and fully validates the configuration of a master process. */

import { ConfigError, type ConfigWarning, type LoadedTenants } from '#config';
import { checkServerConfig } from '../index.ts';

/** A configuration that has passed all checks. */
interface ServedConfig {
  readonly loaded: LoadedTenants;
  /**
   * Warnings about missing directories that options name. They are not among the warnings about the
   * options.
   */
  readonly directoryWarnings: readonly ConfigWarning[];
}

/**
 * Loads and checks a configuration.
 * @throws ConfigError with all errors in the options of the master, its tenants, the bridge and the
 * HTTP API
 */
export async function loadServedConfig(directory: string): Promise<ServedConfig> {
  const { problems, warnings, loaded } = await checkServerConfig(directory);
  if (loaded === undefined) throw ConfigError.of(problems);
  return {
    loaded,
    directoryWarnings: warnings.filter(({ kind }) => kind === 'missing-directory'),
  };
}
