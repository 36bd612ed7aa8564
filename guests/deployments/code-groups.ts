/** What the groups of software configs whose config is code have a minion do. */

import { isPlainMap, type Parameters, states } from '#heat-bridge';
import { initKey } from '../cfn-init/config-sets.ts';
import { parseInitMetadata } from '../cfn-init/init-metadata.ts';
import { statesParameters } from '../cfn-init/states-command.ts';
import { maxConfigDepth, readConfigJson } from '../config-json.ts';
import { wrapScript } from '../script-wrapper.ts';
import { slsWithInputs } from './inline-sls.ts';
import { jsonFiles } from './json-files.ts';
import type { Deployment } from './metadata.ts';
import type { DeploymentCall } from './resolved-call.ts';
import { readToolOptions, toolScript } from './tool-scripts.ts';

const { compileStates, configError } = states;

/** Groups that an entry of `deployments:` can be for; `salt` is inline SLS. */
export const codeGroups = [
  'ansible',
  'apply-config',
  'cfn-init',
  'chef',
  'hiera',
  'json-file',
  'puppet',
  'salt',
  'script',
] as const;
export type CodeGroup = (typeof codeGroups)[number];

export function isCodeGroup(group: string): group is CodeGroup {
  return codeGroups.some((it) => it === group);
}

/** What a group needs to know of the entry that permits a config. */
export interface CodeEntry {
  /** The group of the config. */
  readonly group: CodeGroup;
  /** Of `hiera` and `json-file`: directories below which files may be written. */
  readonly paths?: readonly string[];
  /** Of tools: options of the config that the operator sets. */
  readonly options?: Readonly<Record<string, unknown>>;
}

/** Groups whose config is data in files: where the files are can be all that is permitted. */
export function writesFiles(group: CodeGroup): boolean {
  return group === 'hiera' || group === 'json-file';
}

/** Whether the config is looked at at all. */
export function hasConfig(group: CodeGroup): boolean {
  return group !== 'apply-config';
}

/** Whether the config becomes states, which travel in the pillar of the minion. */
export function appliesStates(group: CodeGroup): boolean {
  return group === 'cfn-init' || writesFiles(group);
}

/**
 * The call for a config that is permitted.
 * @param values - inputs, as the entry describes them
 * @throws BridgeError ERR_CFN_INIT
 */
export function codeCall(
  entry: CodeEntry,
  deployment: Deployment,
  values: Parameters,
): Pick<DeploymentCall, 'kind' | 'params'> {
  const { group } = entry;
  const { config, outputs } = deployment;
  switch (group) {
    case 'cfn-init': {
      const states = compileStates(parseInitMetadata(initOf(config), configSetsOf(values)));
      return { kind: 'states', params: statesParameters(states) };
    }
    case 'hiera':
    case 'json-file': {
      const states = compileStates([jsonFiles(group, config, entry.paths)]);
      return { kind: 'states', params: statesParameters(states) };
    }
    case 'salt': {
      if (typeof config !== 'string' || config === '') {
        throw configError('group salt', 'the config is no text');
      }
      return { kind: 'code', params: { tem: slsWithInputs(config, values) } };
    }
    case 'script': {
      if (typeof config !== 'string' || config === '') {
        throw configError('group script', 'the config is no text');
      }
      return { kind: 'code', params: { code: wrapScript(config, { variables: values, outputs }) } };
    }
    default: {
      const options = readToolOptions(group, deployment.options, entry.options);
      const code = toolScript(group, { ...deployment, inputs: values, options });
      return { kind: 'code', params: { code } };
    }
  }
}

/** The section itself, or what has it under its name. */
function initOf(config: Deployment['config']): unknown {
  const map = typeof config === 'string' ? readConfigJson(config) : config;
  if (map === undefined) {
    const expected = `a map, or text that is JSON and has at most ${maxConfigDepth} levels`;
    throw configError(initKey, `expected ${expected}`);
  }
  return isPlainMap(map) && Object.hasOwn(map, initKey) ? map[initKey] : map;
}

/** The input that selects config sets. */
export const configSetsInput = 'configSets';

/** As `cfn-init -c a,b`. */
function configSetsOf({ [configSetsInput]: given }: Parameters): readonly string[] | undefined {
  if (given === undefined) return undefined;
  const names = Array.isArray(given) ? given.map(String) : String(given).split(',');
  return names.map((it) => it.trim());
}
