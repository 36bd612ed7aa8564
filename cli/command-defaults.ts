import type { MasterConfig } from '#config';

/**
 * Defaults from the master's configuration for the commands `salt`, `salt-key`, `salt-run` and
 * `salt-cp`. Options on the command line take precedence.
 */
export type CommandDefaults = Pick<
  MasterConfig,
  | 'confFile'
  | 'output'
  | 'color'
  | 'stateOutput'
  | 'stateVerbose'
  | 'stateOutputProfile'
  | 'saltCpChunkSize'
>;

/**
 * Salt's own defaults for these options. A command that does not read the configuration uses them,
 * for example `salt-key --gen-keys`.
 */
export const saltDefaults: CommandDefaults = {
  confFile: '/etc/salt/master',
  output: null,
  color: null,
  stateOutput: 'full',
  stateVerbose: true,
  stateOutputProfile: true,
  saltCpChunkSize: 98_304,
};
