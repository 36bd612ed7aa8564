/** Creates the script that runs a software config of the group `ansible`. */

import { quoteForShell, states } from '#heat-bridge';
import { writeJson } from '#runtime';
import { wrapProgram } from '../script-wrapper.ts';
import { configText, type GroupConfig } from './group-config.ts';
import { runTool, toolOption } from './tool-program.ts';

const { configError } = states;

/**
 * Jinja syntax in the value of a variable. Ansible evaluates it, including lookups that run
 * programs.
 */
const ansibleTemplate = /\{\{|\{%|\{#/;

/**
 * Returns a script that runs a playbook with Ansible, as the Ansible hook of heat-agents does.
 * @throws BridgeError ERR_CFN_INIT
 */
export function ansibleScript(config: GroupConfig): string {
  const { inputs, facts, outputs, options, id } = config;
  const { inventory = 'localhost,' } = options;
  const vars = writeJson({ ...facts, ...inputs, heat_config_id: id });
  if (ansibleTemplate.test(vars)) {
    throw configError(
      'group ansible',
      'an input contains {{, {% or {#, which Ansible evaluates as code; remove it',
    );
  }
  const args = [
    ...['-i', quoteForShell(String(inventory)), '-c', 'local'],
    ...['--extra-vars', '@"$saltbridge_dir/vars.json"'],
    ...['--extra-vars', '"heat_outputs_path=$heat_outputs_path"'],
    ...toolOption('--tags', options.tags),
    ...toolOption('--skip-tags', options.skip_tags),
    ...toolOption('--module-path', options.modulepath),
    '"$saltbridge_dir/playbook.yaml"',
  ];
  const files = { 'playbook.yaml': configText(config), 'vars.json': vars };
  return wrapProgram({ variables: {}, files, run: runTool('ansible-playbook', args), outputs });
}
