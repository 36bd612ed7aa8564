/** Metadata of a server, as Heat returns it. The deployments in it are parsed within limits. */

import { hash } from 'node:crypto';
import Type from 'typebox';
import {
  isPlainMap,
  type ParameterValue,
  parseResultDestination,
  type ResultDestination,
} from '#heat-bridge';
import { compileSchema, type ReadingStep, writeJson } from '#runtime';
import { jsonNumber } from '#template/python/json.ts';
import { Float } from '#template/python/values.ts';
import { cutNesting, isNestedDeeper, maxConfigDepth, tryParseExactJson } from '../config-json.ts';

const deploymentActions = ['CREATE', 'UPDATE', 'DELETE', 'SUSPEND', 'RESUME'] as const;
export type DeploymentAction = (typeof deploymentActions)[number];

/** Deployment in the metadata of a server: a config that is applied once. */
export interface Deployment {
  /**
   * Id of the derived config that Heat creates for this deployment. Heat creates a new one for each
   * action.
   */
  readonly id: string;
  readonly name: string;
  /**
   * Group, which determines how the config is executed. For a software component of Heat, it is the
   * `tool` that the component declares for the action.
   */
  readonly group: string;
  readonly config: string | Readonly<Record<string, unknown>>;
  readonly action: DeploymentAction;
  /** Inputs that the author of the template declared. Inputs that Heat adds are not included. */
  readonly inputs: Readonly<Record<string, ParameterValue>>;
  /** Names of the outputs that Heat accepts. */
  readonly outputs: readonly string[];
  /** Field `options` of the software config in Heat. Its meaning depends on `group`. */
  readonly options?: Readonly<Record<string, unknown>>;
  /** Destination to which the result of the deployment is sent. */
  readonly signal: ResultDestination;
  /** Resource of the deployment, if a stack created it. */
  readonly resource?: { readonly stackPath: string; readonly name: string };
  /** Heat's id of the server. */
  readonly serverId?: string;
}

/**
 * Deployment that cannot be parsed. Heat receives a failure for it, so that the stack does not wait
 * until its timeout.
 */
export interface UnreadableDeployment
  extends Pick<Deployment, 'id' | 'name' | 'resource' | 'signal'> {
  readonly action?: DeploymentAction;
  readonly problem: string;
}

/** Parsed metadata of a server. */
export interface ServerMetadata {
  /** Minion of the server: `saltbridge:minion` of its template. */
  readonly minion?: string;
  /** Handles to register, by alias: `saltbridge:handles` of the template. */
  readonly handles: Readonly<Record<string, unknown>>;
  /** Reasons why parts of the metadata have no effect. */
  readonly warnings: readonly string[];
  /** The whole metadata, for hooks on its values. */
  readonly values: Readonly<Record<string, unknown>>;
  /** Deployments in Heat's order. */
  readonly deployments: readonly (Deployment | UnreadableDeployment)[];
  /** Digest of the metadata. */
  readonly digest: string;
}

const maxDeployments = 256;
const maxIo = 256;
const maxHandles = 64;
const maxConfigLength = 262_144;
/** Maximum length of a deployment's name, in characters. Heat's database has the same limit. */
const maxNameLength = 255;
/**
 * Maximum nesting of the metadata, in levels. Deeper values become `null`. The metadata may have 8
 * levels more than a config, because maps and lists enclose the config. A config that is too deep
 * is therefore not truncated here, but rejected later.
 */
const maxMetadataDepth = maxConfigDepth + 8;

const Text = Type.String({ maxLength: 4096 });
const isEntry = compileSchema(
  Type.Object({
    id: Type.String({ minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9-]+$' }),
    name: Type.Optional(Type.Union([Text, Type.Null()])),
    group: Type.Optional(Type.Union([Text, Type.Null()])),
    config: Type.Optional(Type.Unknown()),
    options: Type.Optional(Type.Unknown()),
    inputs: Type.Optional(
      Type.Array(
        Type.Object({
          name: Text,
          type: Type.Optional(Text),
          value: Type.Optional(Type.Unknown()),
        }),
        { maxItems: maxIo },
      ),
    ),
    outputs: Type.Optional(
      Type.Union([Type.Null(), Type.Array(Type.Object({ name: Text }), { maxItems: maxIo })]),
    ),
  }),
);

/** Metadata of a server, or the reason why it is invalid. */
export type ParsedMetadata =
  | { readonly ok: true; readonly metadata: ServerMetadata }
  | { readonly ok: false; readonly problem: string };

/** Parses the metadata of a server resource, without pauses for other work. */
export function parseServerMetadata(given: unknown): ParsedMetadata {
  const steps = serverMetadataInSteps(given);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** Parses the metadata of a server resource: a map with `deployments`. */
export function* serverMetadataInSteps(
  given: unknown,
): Generator<ReadingStep, ParsedMetadata, void> {
  const value = cutNesting(given, maxMetadataDepth);
  if (!isPlainMap(value)) return { ok: false, problem: 'the metadata of the server is not a map' };
  const { deployments = [], 'saltbridge:minion': minion, 'saltbridge:handles': handles } = value;
  if (!Array.isArray(deployments))
    return {
      ok: false,
      problem: 'the field `deployments` in the metadata of the server is not a list',
    };
  if (deployments.length > maxDeployments) {
    return { ok: false, problem: `the server has more than ${maxDeployments} deployments` };
  }
  const named = isPlainMap(handles) ? Object.entries(handles) : [];
  const entries = named.slice(0, maxHandles);
  const warnings = [
    ...(handles === undefined || isPlainMap(handles)
      ? []
      : ['saltbridge:handles: must be a map of aliases']),
    ...(named.length > maxHandles
      ? [
          `saltbridge:handles: only the first ${maxHandles} of ${named.length} handles are registered`,
        ]
      : []),
  ];
  const json = writeJson(value);
  const digest = hash('sha256', json);
  yield { characters: json.length, values: 0 };
  const parsed: (Deployment | UnreadableDeployment)[] = [];
  for (const entry of deployments) {
    const deployment = yield* deploymentInSteps(entry);
    if (deployment !== undefined) parsed.push(deployment);
  }
  return {
    ok: true,
    metadata: {
      ...(typeof minion === 'string' && minion !== '' ? { minion } : {}),
      handles: Object.fromEntries(entries),
      warnings,
      values: value,
      deployments: parsed,
      digest,
    },
  };
}

/**
 * Parses a deployment. Returns `undefined` for an entry of an invalid form, for example without a
 * valid id. Such an entry is ignored.
 */
function* deploymentInSteps(
  entry: unknown,
): Generator<ReadingStep, Deployment | UnreadableDeployment | undefined, void> {
  if (!isEntry.Check(entry)) return undefined;
  const { id, outputs, options } = entry;
  const whole = entry.name ?? '';
  const name = whole.slice(0, maxNameLength);
  const all = new Map((entry.inputs ?? []).map((input) => [input.name, input]));
  const heat = (key: string): string | undefined => {
    const value = all.get(`deploy_${key}`)?.value;
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const stackPath = heat('stack_id');
  const resourceName = heat('resource_name');
  const resource =
    stackPath === undefined || resourceName === undefined
      ? {}
      : { resource: { stackPath, name: resourceName } };
  const signal = parseResultDestination(heat);
  if (signal === undefined) {
    const problem = 'its inputs do not describe where Heat expects the result';
    return { id, name, ...resource, signal: { transport: 'NO_SIGNAL' }, problem };
  }
  const common = { id, name, ...resource, signal };
  if (name !== whole) {
    return { ...common, problem: `its name has more than ${maxNameLength} characters` };
  }
  const serverId = heat('server_id');
  const action = deploymentActions.find((it) => it === (heat('action') ?? 'CREATE'));
  if (action === undefined)
    return { ...common, problem: 'its input `deploy_action` is not a known action' };
  const tool = resolveComponent(entry.group ?? '', entry.config, action);
  if ('problem' in tool) return { ...common, ...tool };
  const inputs: Record<string, ParameterValue> = Object.create(null);
  for (const input of all.values()) {
    if (heatInputs.has(input.name) || input.value === undefined || input.value === null) continue;
    const value = typedInput(input.type ?? 'String', input.value);
    if (typeof input.value === 'string') yield { characters: input.value.length, values: 0 };
    if (value === undefined) {
      return { ...common, problem: `the input ${input.name} is not a ${input.type}` };
    }
    if (isNestedDeeper(value, maxConfigDepth)) {
      return {
        ...common,
        problem: `the input ${input.name} has more than ${maxConfigDepth} levels`,
      };
    }
    inputs[input.name] = value;
  }
  yield { characters: 0, values: all.size };
  return {
    ...common,
    ...tool,
    action,
    inputs,
    outputs: (outputs ?? []).map((output) => output.name),
    ...(serverId === undefined ? {} : { serverId }),
    ...(isPlainMap(options) ? { options } : {}),
  };
}

/**
 * Returns the inputs that Heat adds about the deployment. Programs of heat-agents read them by
 * these names.
 */
export function heatFactsOf({
  action,
  resource,
  serverId,
}: Pick<Deployment, 'action' | 'resource' | 'serverId'>): Readonly<Record<string, string>> {
  return {
    deploy_action: action,
    ...(serverId === undefined ? {} : { deploy_server_id: serverId }),
    ...(resource === undefined
      ? {}
      : { deploy_stack_id: resource.stackPath, deploy_resource_name: resource.name }),
  };
}

/**
 * Returns some of the inputs that Heat has added: those that the command declares as parameters.
 */
export function declaredFacts(
  deployment: Parameters<typeof heatFactsOf>[0],
  declared: readonly string[],
): Readonly<Record<string, string>> {
  const facts = Object.entries(heatFactsOf(deployment));
  return Object.fromEntries(facts.filter(([name]) => declared.includes(name)));
}

/**
 * Names of the inputs that Heat adds. If a template declares an input with one of these names,
 * Heat's value replaces it.
 */
const heatInputs: ReadonlySet<string> = new Set([
  'deploy_server_id',
  'deploy_action',
  'deploy_stack_id',
  'deploy_resource_name',
  'deploy_signal_transport',
  'deploy_signal_id',
  'deploy_signal_verb',
  'deploy_auth_url',
  'deploy_username',
  'deploy_user_id',
  'deploy_password',
  'deploy_project_id',
  'deploy_region_name',
  'deploy_queue_id',
]);

/**
 * Returns the config and the group of a deployment. In the group `component` (Heat's software
 * components), they are taken from the part of `given` for this action.
 */
function resolveComponent(
  group: string,
  given: unknown,
  action: DeploymentAction,
): Pick<Deployment, 'config' | 'group'> | { readonly problem: string } {
  if (group !== 'component') return boundedConfig(group, given);
  const configs = isPlainMap(given) && Array.isArray(given.configs) ? given.configs : [];
  const found: unknown = configs.find(
    (it) => isPlainMap(it) && Array.isArray(it.actions) && it.actions.includes(action),
  );
  if (!isPlainMap(found) || typeof found.tool !== 'string') {
    return { problem: `the component has no config for ${action}` };
  }
  return boundedConfig(found.tool, found.config);
}

/**
 * Returns the config of a group if its size and depth are within the limits. Otherwise returns the
 * problem.
 */
export function boundedConfig(
  group: string,
  given: unknown,
): Pick<Deployment, 'config' | 'group'> | { readonly problem: string } {
  const config = given ?? '';
  if (typeof config !== 'string' && !isPlainMap(config)) {
    return { problem: 'its config is neither text nor a map' };
  }
  if (isNestedDeeper(config, maxConfigDepth)) {
    return { problem: `its config has more than ${maxConfigDepth} levels` };
  }
  const { length } = typeof config === 'string' ? config : JSON.stringify(config);
  if (length <= maxConfigLength) return { group, config };
  return { problem: `its config has more than ${maxConfigLength} characters` };
}

/** Values of a Boolean input, by their text in lower case. */
const truthValues: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['false', false],
]);

/**
 * Converts an input to its declared type. Heat does not validate the types of inputs, so numbers
 * may be strings.
 */
function typedInput(type: string, value: unknown): ParameterValue | undefined {
  const json = value as ParameterValue; // parsed from JSON
  switch (type) {
    case 'Number': {
      if (typeof value === 'number' || value instanceof Float) return value;
      const isNumber = typeof value === 'string' && /^-?\d+(?:\.\d+)?$/.test(value.trim());
      return isNumber ? jsonNumber(value.trim()) : undefined;
    }
    case 'Boolean':
      if (typeof value === 'boolean') return value;
      return typeof value === 'string' ? truthValues.get(value.toLowerCase()) : undefined;
    case 'CommaDelimitedList':
      return typeof value === 'string' ? value.split(',').map((it) => it.trim()) : json;
    case 'Json':
      // Parsed from JSON.
      return typeof value === 'string' ? (tryParseExactJson(value) as ParameterValue) : json;
    default:
      // Heat's agents convert values in the same way.
      return typeof value === 'object' && !(value instanceof Float) ? json : String(value);
  }
}
