/** What the groups of software configs whose config is code have a minion do. */

import { parseJson } from '../../runtime/index.ts';
import { compileStates } from '../cfn-init/compile-states.ts';
import { configError } from '../cfn-init/config.ts';
import { initKey } from '../cfn-init/config-sets.ts';
import { parseInitMetadata } from '../cfn-init/init-metadata.ts';
import { statesParameters } from '../cfn-init/states-command.ts';
import { isPlainMap } from '../commands/command-definition.ts';
import type { Parameters } from '../commands/parameters.ts';
import type { Deployment } from './metadata.ts';
import type { DeploymentCall } from './resolved-call.ts';
import { wrapScript } from './script-wrapper.ts';

/** Groups that an entry of `deployments:` can be for. */
export const codeGroups = ['cfn-init', 'script'] as const;
export type CodeGroup = (typeof codeGroups)[number];

export function isCodeGroup(group: string): group is CodeGroup {
  return codeGroups.some((it) => it === group);
}

/** What a group needs to know of the entry that permits a config. */
export interface CodeEntry {
  /** The group of the config. */
  readonly group: CodeGroup;
}

/** Whether the config becomes states, which travel in the pillar of the minion. */
export function appliesStates(group: CodeGroup): boolean {
  return group === 'cfn-init';
}

/**
 * The call for a config that is permitted.
 * @param values - inputs, as the entry describes them
 * @throws BridgeError ERR_CFN_INIT
 */
export function codeCall(
  { group }: CodeEntry,
  { config, outputs }: Deployment,
  values: Parameters,
): Pick<DeploymentCall, 'kind' | 'params'> {
  switch (group) {
    case 'cfn-init': {
      const states = compileStates(parseInitMetadata(initOf(config), configSetsOf(values)));
      return { kind: 'states', params: statesParameters(states) };
    }
    case 'script': {
      if (typeof config !== 'string' || config === '') {
        throw configError('group script', 'the config is no text');
      }
      return {
        kind: 'code',
        params: { code: wrapScript({ script: config, inputs: values, outputs }) },
      };
    }
  }
}

/** The section itself, or what has it under its name. */
function initOf(config: Deployment['config']): unknown {
  const map = typeof config === 'string' ? jsonOf(config) : config;
  return isPlainMap(map) && Object.hasOwn(map, initKey) ? map[initKey] : map;
}

function jsonOf(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    throw configError(initKey, 'expected a map, or text that is JSON');
  }
}

/** As `cfn-init -c a,b`. */
function configSetsOf({ configSets: given }: Parameters): readonly string[] | undefined {
  if (given === undefined) return undefined;
  const names = Array.isArray(given) ? given.map(String) : String(given).split(',');
  return names.map((it) => it.trim());
}
