/** Table of the supported groups of software configs. */

import { isPlainMap, type Parameters, states } from '#heat-bridge';
import { initKey } from '../cfn-init/config-sets.ts';
import { parseInitMetadata } from '../cfn-init/init-metadata.ts';
import { maxConfigDepth, readConfigJson } from '../config-json.ts';
import { wrapProgram, wrapScript } from '../script-wrapper.ts';
import { ansibleScript } from './ansible-script.ts';
import { chefScript } from './chef-script.ts';
import { configText, type GroupConfig, type OptionNames } from './group-config.ts';
import { slsText, slsWithInputs } from './inline-sls.ts';
import { hieraConfig, jsonFileConfig } from './json-files.ts';
import { puppetScript } from './puppet-script.ts';
import { runTool } from './tool-program.ts';

const { configError } = states;

/** Groups for which `deployments:` can have entries. `salt` is inline SLS. */
export type CodeGroup =
  | 'ansible'
  | 'apply-config'
  | 'cfn-init'
  | 'chef'
  | 'hiera'
  | 'json-file'
  | 'puppet'
  | 'salt'
  | 'script';

/** Groups that a deployment may have. */
export type DeploymentGroup = CodeGroup | 'salt-state' | 'saltbridge';

/** Properties of a group whose config is code. An entry of `deployments:` must permit the code. */
export type CodeRow = {
  /**
   * Permission that a catalog entry must contain. `config`: `sha256` or `unsafe`.
   * `config-or-paths`: `sha256`, `unsafe`, or `paths` with the directories in which deployments may
   * write files. `no-config`: none, because the group has no config.
   */
  readonly permits: 'config' | 'config-or-paths' | 'no-config';
  /** Options that software configs of this group may have, in templates and in catalog entries. */
  readonly options: OptionNames;
} & CodeOfGroup;

/**
 * Function that creates the code of a config (`code`), and the way in which the minion executes
 * this code (`runs`).
 * @throws BridgeError ERR_CFN_INIT
 */
type CodeOfGroup =
  /** The code is a script. A shell of the minion executes it. */
  | { readonly runs: 'shell'; readonly code: (config: GroupConfig) => string }
  /** The code is SLS. The minion renders and executes it. */
  | { readonly runs: 'sls'; readonly code: (config: GroupConfig) => string }
  /** The code is a list of states. The minion reads them from its pillar and executes them. */
  | { readonly runs: 'states'; readonly code: (config: GroupConfig) => readonly states.Config[] };

/** Properties of a group of software configs. */
type GroupRow<G extends DeploymentGroup> = {
  /** Meaning of the config: the name of a command, the name of a state file or SLS, or code. */
  readonly config: 'code' | 'command' | 'state-file-or-sls';
} & (G extends CodeGroup ? { readonly code: CodeRow } : { readonly code?: never });

const noOptions: OptionNames = { ofTemplate: 'ignored', ofEntry: [] };

const rows: { readonly [G in DeploymentGroup]: GroupRow<G> } = {
  saltbridge: { config: 'command' },
  salt: {
    config: 'state-file-or-sls',
    code: {
      permits: 'config',
      options: noOptions,
      runs: 'sls',
      code: (config) => slsWithInputs(slsText(config), config),
    },
  },
  'salt-state': { config: 'state-file-or-sls' },
  ansible: {
    config: 'code',
    code: {
      permits: 'config',
      options: { ofTemplate: ['tags', 'skip_tags'], ofEntry: ['inventory', 'modulepath'] },
      runs: 'shell',
      code: ansibleScript,
    },
  },
  'apply-config': {
    config: 'code',
    code: {
      permits: 'no-config',
      options: { ofTemplate: [], ofEntry: [] },
      runs: 'shell',
      code: ({ outputs }) =>
        wrapProgram({ variables: {}, files: {}, run: runTool('os-apply-config', []), outputs }),
    },
  },
  'cfn-init': {
    config: 'code',
    code: {
      permits: 'config',
      options: noOptions,
      runs: 'states',
      code: ({ config, inputs }) => parseInitMetadata(initOf(config), configSetsOf(inputs)),
    },
  },
  chef: {
    config: 'code',
    code: {
      permits: 'config',
      options: { ofTemplate: [], ofEntry: ['kitchen_path'] },
      runs: 'shell',
      code: chefScript,
    },
  },
  hiera: {
    config: 'code',
    code: {
      permits: 'config-or-paths',
      options: noOptions,
      runs: 'states',
      code: (config) => [hieraConfig(config)],
    },
  },
  'json-file': {
    config: 'code',
    code: {
      permits: 'config-or-paths',
      options: noOptions,
      runs: 'states',
      code: (config) => [jsonFileConfig(config)],
    },
  },
  puppet: {
    config: 'code',
    code: {
      permits: 'config',
      options: {
        ofTemplate: ['tags', 'enable_debug', 'enable_verbose', 'enable_facter', 'enable_hiera'],
        ofEntry: ['modulepath'],
      },
      runs: 'shell',
      code: puppetScript,
    },
  },
  script: {
    config: 'code',
    code: {
      permits: 'config',
      options: noOptions,
      runs: 'shell',
      code: (config) =>
        wrapScript(configText(config), {
          variables: { ...config.facts, ...config.inputs },
          outputs: config.outputs,
        }),
    },
  },
};

/** Names of all groups. */
export const deploymentGroups: readonly string[] = Object.keys(rows);

/** Groups for which `deployments:` can have entries. */
export const codeGroups: readonly CodeGroup[] = deploymentGroups.filter(isCodeGroup).sort();

function isDeploymentGroup(name: string): name is DeploymentGroup {
  return Object.hasOwn(rows, name);
}

export function isCodeGroup(name: string): name is CodeGroup {
  return isDeploymentGroup(name) && rows[name].code !== undefined;
}

/**
 * Returns what a config in this group contains: the name of a command, the name of a state file or
 * SLS, or code. Returns `undefined` for an unknown group.
 */
export function configKindOf(group: string): GroupRow<DeploymentGroup>['config'] | undefined {
  return isDeploymentGroup(group) ? rows[group].config : undefined;
}

export function codeRowOf(group: CodeGroup): CodeRow {
  return rows[group].code;
}

/**
 * Returns the init metadata in a config: its value under the key `AWS::CloudFormation::Init`, or
 * the config itself.
 */
function initOf(config: GroupConfig['config']): unknown {
  const map = typeof config === 'string' ? readConfigJson(config) : config;
  if (map === undefined) {
    throw configError(
      initKey,
      `the config must be a map, or JSON text that is nested at most ${maxConfigDepth} levels deep`,
    );
  }
  return isPlainMap(map) && Object.hasOwn(map, initKey) ? map[initKey] : map;
}

/** Name of the input that selects config sets. */
export const configSetsInput = 'configSets';

/**
 * Returns the selected config sets. The input is a list, or a string such as `a,b` as in `cfn-init
 * -c`.
 */
function configSetsOf({ [configSetsInput]: given }: Parameters): readonly string[] | undefined {
  if (given === undefined) return undefined;
  const names = Array.isArray(given) ? given : [given];
  if (names.some((it) => typeof it === 'object')) {
    throw states.configError(configSetsInput, 'must be a string or a list of strings');
  }
  return (Array.isArray(given) ? given.map(String) : String(given).split(',')).map((it) =>
    it.trim(),
  );
}
