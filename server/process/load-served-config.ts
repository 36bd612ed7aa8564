/** The configuration of a process that is a master, after everything in it was looked at. */

import { ConfigError, type ConfigWarning, type LoadedTenants } from '#config';
import { checkServerConfig } from '../index.ts';

/** A configuration without mistakes. */
interface ServedConfig {
  readonly loaded: LoadedTenants;
  /** Of directories that options name, beside the warnings of the options themselves. */
  readonly directoryWarnings: readonly ConfigWarning[];
}

/** @throws ConfigError with all mistakes: of the master, its tenants, the bridge and the HTTP API */
export async function loadServedConfig(directory: string): Promise<ServedConfig> {
  const { problems, warnings, loaded } = await checkServerConfig(directory);
  if (loaded === undefined) throw ConfigError.of(problems);
  return {
    loaded,
    directoryWarnings: warnings.filter(({ kind }) => kind === 'missing-directory'),
  };
}
