/** Creates the script that runs a software config of the group `chef`. */

import { quoteForShell, states } from '#heat-bridge';
import { writeJson } from '#runtime';
import { readConfigJson } from '../config-json.ts';
import { wrapProgram } from '../script-wrapper.ts';
import type { GroupConfig } from './group-config.ts';
import { runTool, toolNameForm, toolOption } from './tool-program.ts';

const { configError } = states;

const defaultKitchen = '/var/lib/heat-config/heat-config-chef/kitchen';
const recipeForm = /^(?:recipe|role)\[[A-Za-z0-9_.:@-]+\]$|^[A-Za-z0-9_-]+(?:::[A-Za-z0-9_-]+)?$/;

/**
 * Returns a script that runs recipes and roles with Chef, as the Chef hook of heat-agents does.
 * @throws BridgeError ERR_CFN_INIT
 */
export function chefScript({ config, inputs, outputs, options }: GroupConfig): string {
  const list = typeof config === 'string' ? readConfigJson(config) : undefined;
  const isRecipe = (it: unknown): boolean => typeof it === 'string' && recipeForm.test(it);
  if (!Array.isArray(list) || !list.every(isRecipe)) {
    throw configError(
      'group chef',
      'the config must be a run list of Chef: a JSON list of recipes and roles',
    );
  }
  const { environment, ...attributes } = inputs;
  if (environment !== undefined && !toolNameForm.test(String(environment))) {
    throw configError(
      'group chef',
      'the Chef environment may contain only letters, digits, _ and -',
    );
  }
  const kitchen = String(options.kitchen_path ?? defaultKitchen);
  // Ruby and the shell interpret the result of `quoteForShell` in the same way, because wordForm
  // permits neither quotes nor backslashes.
  const client = ['cookbook', 'role', 'environment']
    .map((kind) => `${kind}_path ${quoteForShell(`${kitchen}/${kind}s`)}\n`)
    .join('');
  const args = [
    ...['-z', '--config', '"$saltbridge_dir/client.rb"'],
    ...['--json-attributes', '"$saltbridge_dir/node.json"'],
    ...toolOption('--environment', environment === undefined ? undefined : String(environment)),
  ];
  const files = {
    'client.rb': client,
    'node.json': writeJson({ ...attributes, run_list: list }),
  };
  return wrapProgram({ variables: {}, files, run: runTool('chef-client', args), outputs });
}
