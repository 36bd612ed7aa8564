/** Config of a permitted deployment, and the options of this config. */

import { isPlainMap, type Parameters, states } from '#heat-bridge';
import type { Deployment } from './metadata.ts';

const { configError } = states;

/** Options of a config, read by {@link readGroupOptions}. */
export type GroupOptions = Readonly<Record<string, boolean | string>>;

/** Names of the options that a group supports. */
export interface OptionNames {
  /**
   * Options that a template may set. Other options of a template are rejected. `ignored`: all
   * options of templates are ignored.
   */
  readonly ofTemplate: readonly string[] | 'ignored';
  /** Options that only a catalog entry may set, because they select code on the minion. */
  readonly ofEntry: readonly string[];
}

/**
 * Config of a permitted deployment, with its inputs and options. The group of the config determines
 * the code that the bridge creates from it.
 */
export interface GroupConfig {
  readonly group: string;
  readonly config: Deployment['config'];
  /** Id of the deployment. */
  readonly id: string;
  readonly name: string;
  readonly inputs: Parameters;
  /** Inputs that Heat adds: `deploy_action`, `deploy_server_id` and others. */
  readonly facts: Readonly<Record<string, string>>;
  readonly outputs: readonly string[];
  readonly options: GroupOptions;
  /** Directories in which files may be written. `undefined`: no restriction. */
  readonly paths: readonly string[] | undefined;
}

/** Returns the config as text. @throws BridgeError ERR_CFN_INIT if it is empty or a map */
export function configText({ config, group }: Pick<GroupConfig, 'config' | 'group'>): string {
  if (typeof config === 'string' && config !== '') return config;
  throw configError(`group ${group}`, 'the config must be non-empty text');
}

const flagForm = /^enable_/;
const wordForm = /^[A-Za-z0-9_/][A-Za-z0-9_,.:/ -]{0,999}$/;

/**
 * Reads the options of a config. Options that select code on the minion (modules, cookbooks,
 * inventories) are read from the catalog entry only.
 * @param given - options in the template
 * @param ofEntry - options in the catalog entry, which take precedence
 * @throws BridgeError ERR_CFN_INIT
 */
export function readGroupOptions(
  group: string,
  names: OptionNames,
  given: unknown,
  ofEntry: unknown,
): GroupOptions {
  const isIgnored = names.ofTemplate === 'ignored';
  const free = names.ofTemplate === 'ignored' ? [] : names.ofTemplate;
  const own = readOptions(group, ofEntry, [...free, ...names.ofEntry]);
  return { ...readOptions(group, isIgnored ? {} : given, free), ...own };
}

function readOptions(group: string, given: unknown, names: readonly string[]): GroupOptions {
  const entries = Object.entries(isPlainMap(given) ? given : {}).map(([name, value]) => {
    if (!names.includes(name)) {
      const hint = 'it selects code, so only a catalog entry may set it';
      throw configError(
        `group ${group}`,
        `the template must not set the option ${name.slice(0, 64)}: ${hint}`,
      );
    }
    if (flagForm.test(name)) return [name, value === true || value === 'true'] as const;
    if (typeof value === 'string' && wordForm.test(value)) return [name, value] as const;
    throw configError(
      `group ${group}`,
      `the option ${name} may contain only letters, digits, spaces and _ , . : / -`,
    );
  });
  return Object.fromEntries(entries);
}
