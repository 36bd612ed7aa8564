/** Determines which command or code of the catalog a deployment runs. */

import type { Catalog } from '#heat-bridge';
import type { CodeCatalog } from './code-catalog.ts';
import { configKindOf, deploymentGroups, isCodeGroup } from './deployment-groups.ts';
import { type Deployment, declaredFacts } from './metadata.ts';
import type { ResolvedCall } from './resolved-call.ts';

export interface CallCatalogs {
  readonly commands: Catalog;
  readonly code: CodeCatalog;
  /**
   * Whether the owner of the deployment may call a command. Error messages do not mention other
   * commands.
   */
  readonly mayCall: (command: string) => boolean;
}

/**
 * Determines the call of a deployment. Group, config and inputs from the template can only select
 * what the catalog and the policy permit.
 */
export function resolveCall(deployment: Deployment, catalogs: CallCatalogs): ResolvedCall {
  const { group } = deployment;
  switch (configKindOf(group)) {
    case 'command':
      return resolveCommand(deployment, catalogs);
    case 'state-file-or-sls':
      return resolveState(deployment, catalogs);
    case 'code':
      if (isCodeGroup(group))
        return catalogs.code.resolve({ ...deployment, group }, catalogs.mayCall);
  }
  const name = JSON.stringify(group.slice(0, 64));
  return refusal(`group ${name} is not supported; use ${deploymentGroups.join(', ')}`);
}

/**
 * Resolves a config that names a command. The config is one name, or a map from actions to names.
 */
function resolveCommand(deployment: Deployment, { commands, mayCall }: CallCatalogs): ResolvedCall {
  const { config, action } = deployment;
  const named = typeof config === 'string' ? config : config[action];
  const name = typeof named === 'string' ? named.trim() : '';
  const command = commands.list().find(({ definition }) => definition.name === name);
  if (command !== undefined && mayCall(name)) return callOf(command, deployment);
  return refusal(
    `group saltbridge: for ${action}, the config must name a command of the catalog that a rule permits`,
  );
}

/** Form of the name of a state file. Inline SLS always contains a colon, so it does not match. */
const stateFileName = /^[\w./-]*$/;

/**
 * Resolves a config of the group `salt-state`, which is either inline SLS or the name of a state
 * file. A state file is only permitted if a command of the catalog applies it.
 */
function resolveState(
  deployment: Deployment,
  { commands, code, mayCall }: CallCatalogs,
): ResolvedCall {
  const { config, group } = deployment;
  if (typeof config !== 'string') return code.resolve({ ...deployment, group: 'salt' }, mayCall);
  const name = config.trim();
  const found = commands
    .list()
    .filter(({ definition }) => definition.state === name && mayCall(definition.name));
  const [command, another] = found;
  if (command === undefined && !stateFileName.test(name)) {
    return code.resolve({ ...deployment, group: 'salt' }, mayCall);
  }
  if (command === undefined) {
    return refusal(
      `group ${group}: the config names a state file, but no permitted command of the catalog applies this file`,
    );
  }
  if (another === undefined) return callOf(command, deployment);
  return refusal(
    `group ${group}: several commands of the catalog apply this state file; use the group saltbridge and name one of them`,
  );
}

/**
 * Returns the call of a command with the inputs of the deployment. Heat's own inputs
 * (`deploy_action` and others) are added if the command has parameters for them.
 */
function callOf({ definition }: ReturnType<Catalog['get']>, deployment: Deployment): ResolvedCall {
  const { properties = {} } = definition.parameters ?? {};
  const known = Object.keys(properties as object);
  const params = { ...deployment.inputs, ...declaredFacts(deployment, known) };
  return { ok: true, call: { kind: 'command', command: definition.name, params } };
}

function refusal(reason: string): ResolvedCall {
  return { ok: false, reason };
}
