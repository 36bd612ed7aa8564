import type { MasterConfig } from '#config';

/**
 * Options of the configuration for commands named as Salt's. Command-line options take precedence.
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

/** Defaults for options that the configuration does not set. */
export const saltDefaults: CommandDefaults = {
  confFile: '/etc/salt/master',
  output: null,
  color: null,
  stateOutput: 'full',
  stateVerbose: true,
  stateOutputProfile: true,
  saltCpChunkSize: 98_304,
};
