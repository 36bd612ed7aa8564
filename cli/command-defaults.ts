import type { MasterConfig } from '#config';

/** What the configuration says of commands named as Salt's; their options win over it. */
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

/** What holds where the configuration says nothing. */
export const saltDefaults: CommandDefaults = {
  confFile: '/etc/salt/master',
  output: null,
  color: null,
  stateOutput: 'full',
  stateVerbose: true,
  stateOutputProfile: true,
  saltCpChunkSize: 98_304,
};
