/** Puppet, Ansible, Chef and os-apply-config, run on the minion as the hooks of heat-agents run them. */

import { isPlainMap, type Parameters, quoteForShell, states } from '#heat-bridge';
import { writeJson } from '#runtime';
import { readConfigJson } from '../config-json.ts';
import { wrapProgram } from '../script-wrapper.ts';
import type { Deployment } from './metadata.ts';

const { configError } = states;

/** Options of a config, read by {@link readToolOptions}. */
export type ToolOptions = Readonly<Record<string, boolean | string>>;

/** A config that may run. */
export interface ToolConfig {
  readonly config: Deployment['config'];
  readonly id: string;
  readonly name: string;
  readonly inputs: Parameters;
  readonly outputs: readonly string[];
  readonly options: ToolOptions;
}

/** Groups with a tool, and their options: those that a template may choose come first. */
const toolOptions: Readonly<
  Record<string, { readonly free: readonly string[]; readonly ofEntry: readonly string[] }>
> = {
  ansible: { free: ['tags', 'skip_tags'], ofEntry: ['inventory', 'modulepath'] },
  'apply-config': { free: [], ofEntry: [] },
  chef: { free: [], ofEntry: ['kitchen_path'] },
  puppet: {
    free: ['tags', 'enable_debug', 'enable_verbose', 'enable_facter', 'enable_hiera'],
    ofEntry: ['modulepath'],
  },
};

const flagForm = /^enable_/;
const wordForm = /^[A-Za-z0-9_/][A-Za-z0-9_,.:/ -]{0,999}$/;

/**
 * What chooses code on the minion (where modules, cookbooks and inventories are) is the operator's.
 * @param given - of the template
 * @param ofEntry - of the entry of the catalog, which wins
 * @throws BridgeError ERR_CFN_INIT
 */
export function readToolOptions(group: string, given: unknown, ofEntry: unknown): ToolOptions {
  const known = toolOptions[group] ?? { free: [], ofEntry: [] };
  const own = readOptions(group, ofEntry, [...known.free, ...known.ofEntry]);
  // protection: options-of-templates
  return { ...readOptions(group, given, known.free), ...own };
}

function readOptions(group: string, given: unknown, names: readonly string[]): ToolOptions {
  const entries = Object.entries(isPlainMap(given) ? given : {}).map(([name, value]) => {
    if (!names.includes(name)) {
      const hint = 'an entry of the catalog may set where code is; a template may not';
      throw configError(`group ${group}`, `the option ${name.slice(0, 64)} is not taken: ${hint}`);
    }
    if (flagForm.test(name)) return [name, value === true || value === 'true'] as const;
    if (typeof value === 'string' && wordForm.test(value)) return [name, value] as const;
    throw configError(`group ${group}`, `the option ${name} is no plain text`);
  });
  return Object.fromEntries(entries);
}

/** The code for a shell of the minion. @throws BridgeError ERR_CFN_INIT */
export function toolScript(group: string, config: ToolConfig): string {
  switch (group) {
    case 'ansible':
      return ansibleScript(config);
    case 'chef':
      return chefScript(config);
    case 'puppet':
      return puppetScript(config);
    default:
      return wrapProgram({ ...config, ...nothing, run: runTool('os-apply-config', []) });
  }
}

const nothing = { variables: {}, files: {} };

/** A tool that is missing fails, where heat-agents succeed with nothing done. */
function runTool(program: string, args: readonly string[], after = ''): string {
  return [
    `if command -v ${program} > /dev/null; then ${[program, ...args].join(' ')}; saltbridge_status=$?`,
    `else echo '${program} is not installed' >&2; saltbridge_status=127; fi${after}`,
  ].join('\n');
}

function option(name: string, value: boolean | string | undefined): readonly string[] {
  if (value === undefined || value === false) return [];
  return value === true ? [name] : [name, quoteForShell(value)];
}

function textOf({ config }: ToolConfig, group: string): string {
  if (typeof config === 'string' && config !== '') return config;
  throw configError(`group ${group}`, 'the config is no text');
}

// Puppet.

const nameForm = /^[A-Za-z0-9_-]{1,128}$/;

function puppetScript(config: ToolConfig): string {
  const { inputs, outputs, options, name } = config;
  const { enable_facter: hasFacts = true, enable_hiera: hasHiera = false } = options;
  const facts = Object.entries(inputs).map(([key, value]) => [`FACTER_${key}`, value]);
  if (hasHiera === true && !nameForm.test(name)) {
    throw configError(
      'group puppet',
      'enable_hiera needs a deployment named by letters and digits',
    );
  }
  const data = `/etc/puppet/hieradata/heat_config_${name}.json`;
  const files = { 'manifest.pp': textOf(config, 'puppet') };
  const args = [
    ...['apply', '--detailed-exitcodes', '--logdest', 'console'],
    ...option('--modulepath', options.modulepath),
    ...option('--tags', options.tags),
    ...option('--debug', options.enable_debug),
    ...option('--verbose', options.enable_verbose),
    '"$saltbridge_dir/manifest.pp"',
  ];
  const before = [
    'export FACTER_heat_outputs_path="$heat_outputs_path"',
    ...(hasHiera === true
      ? [`mkdir -p /etc/puppet/hieradata && cp "$saltbridge_dir/inputs.json" ${data} || exit 126`]
      : []),
  ];
  // 2: it succeeded, and there were changes.
  const run = runTool('puppet', args, '\n[ "$saltbridge_status" = 2 ] && saltbridge_status=0');
  return wrapProgram({
    variables: hasFacts === true ? Object.fromEntries(facts) : {},
    files: hasHiera === true ? { ...files, 'inputs.json': writeJson(inputs) } : files,
    run: [...before, run].join('\n'),
    outputs,
  });
}

// Ansible.

/** What Ansible reads in values of variables, lookups that run programs among them. */
const ansibleTemplate = /\{\{|\{%|\{#/;

function ansibleScript(config: ToolConfig): string {
  const { inputs, outputs, options, id } = config;
  const { inventory = 'localhost,' } = options;
  const vars = writeJson({ ...inputs, heat_config_id: id });
  // protection: templates-of-ansible
  if (ansibleTemplate.test(vars)) {
    throw configError('group ansible', 'an input has {{, {% or {#, which Ansible reads as code');
  }
  const args = [
    ...['-i', quoteForShell(String(inventory)), '-c', 'local'],
    ...['--extra-vars', '@"$saltbridge_dir/vars.json"'],
    ...['--extra-vars', '"heat_outputs_path=$heat_outputs_path"'],
    ...option('--tags', options.tags),
    ...option('--skip-tags', options.skip_tags),
    ...option('--module-path', options.modulepath),
    '"$saltbridge_dir/playbook.yaml"',
  ];
  const files = { 'playbook.yaml': textOf(config, 'ansible'), 'vars.json': vars };
  return wrapProgram({ variables: {}, files, run: runTool('ansible-playbook', args), outputs });
}

// Chef.

const defaultKitchen = '/var/lib/heat-config/heat-config-chef/kitchen';
const recipeForm = /^(?:recipe|role)\[[A-Za-z0-9_.:@-]+\]$|^[A-Za-z0-9_-]+(?:::[A-Za-z0-9_-]+)?$/;

function chefScript({ config, inputs, outputs, options }: ToolConfig): string {
  const list = typeof config === 'string' ? readConfigJson(config) : undefined;
  const isRecipe = (it: unknown): boolean => typeof it === 'string' && recipeForm.test(it);
  if (!Array.isArray(list) || !list.every(isRecipe)) {
    throw configError('group chef', 'expected a JSON list of recipes and roles');
  }
  const { environment, ...attributes } = inputs;
  if (environment !== undefined && !nameForm.test(String(environment))) {
    throw configError('group chef', 'the environment is no name');
  }
  const kitchen = String(options.kitchen_path ?? defaultKitchen);
  // `quoteForShell` is read by Ruby as by a shell: wordForm has no quote and no backslash.
  const client = ['cookbook', 'role', 'environment']
    .map((kind) => `${kind}_path ${quoteForShell(`${kitchen}/${kind}s`)}\n`)
    .join('');
  const args = [
    ...['-z', '--config', '"$saltbridge_dir/client.rb"'],
    ...['--json-attributes', '"$saltbridge_dir/node.json"'],
    ...option('--environment', environment === undefined ? undefined : String(environment)),
  ];
  const files = {
    'client.rb': client,
    'node.json': writeJson({ ...attributes, run_list: list }),
  };
  return wrapProgram({ variables: {}, files, run: runTool('chef-client', args), outputs });
}
