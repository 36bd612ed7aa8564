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

/** Values that are used if the configuration does not set these defaults. */
export const saltDefaults: CommandDefaults = {
  confFile: '/etc/salt/master',
  output: null,
  color: null,
  stateOutput: 'full',
  stateVerbose: true,
  stateOutputProfile: true,
  saltCpChunkSize: 98_304,
};
