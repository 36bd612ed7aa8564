/** Creates the script that runs a software config of the group `puppet`. */

import { states } from '#heat-bridge';
import { writeJson } from '#runtime';
import { wrapProgram } from '../script-wrapper.ts';
import { configText, type GroupConfig } from './group-config.ts';
import { runTool, toolNameForm, toolOption } from './tool-program.ts';

const { configError } = states;

/**
 * Returns a script that applies a manifest with Puppet, as the Puppet hook of heat-agents does.
 * @throws BridgeError ERR_CFN_INIT
 */
export function puppetScript(config: GroupConfig): string {
  const { outputs, options, name } = config;
  const inputs = { ...config.facts, ...config.inputs };
  const { enable_facter: hasFacts = true, enable_hiera: hasHiera = false } = options;
  const variables = Object.entries(inputs).map(([key, value]) => [`FACTER_${key}`, value]);
  if (hasHiera === true && !toolNameForm.test(name)) {
    throw configError(
      'group puppet',
      '`enable_hiera` requires a deployment name with letters, digits, _ and - only',
    );
  }
  const data = `/etc/puppet/hieradata/heat_config_${name}.json`;
  const files = { 'manifest.pp': configText(config) };
  const args = [
    ...['apply', '--detailed-exitcodes', '--logdest', 'console'],
    ...toolOption('--modulepath', options.modulepath),
    ...toolOption('--tags', options.tags),
    ...toolOption('--debug', options.enable_debug),
    ...toolOption('--verbose', options.enable_verbose),
    '"$saltbridge_dir/manifest.pp"',
  ];
  const before = [
    'export FACTER_heat_outputs_path="$heat_outputs_path"',
    ...(hasHiera === true
      ? [`mkdir -p /etc/puppet/hieradata && cp "$saltbridge_dir/inputs.json" ${data} || exit 126`]
      : []),
  ];
  // Exit code 2 means success with changes.
  const run = runTool('puppet', args, '\n[ "$saltbridge_status" = 2 ] && saltbridge_status=0');
  return wrapProgram({
    variables: hasFacts === true ? Object.fromEntries(variables) : {},
    files: hasHiera === true ? { ...files, 'inputs.json': writeJson(inputs) } : files,
    run: [...before, run].join('\n'),
    outputs,
  });
}
