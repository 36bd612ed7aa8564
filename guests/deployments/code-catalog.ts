/**
 * Catalog of the code that templates may contain: `deployments:` in catalog files. An entry lists
 * SHA-256 hashes of permitted code, or states that the operator accepts the risk of running any
 * code.
 */

import { hash } from 'node:crypto';
import Type from 'typebox';
import {
  BridgeError,
  Catalog,
  type CatalogEntryKind,
  type CommandDefinition,
  catalogError,
  checkCatalogEntry,
  compileParameters,
  findTextProblem,
  isPlainMap,
  type JsonSchema,
  keywordForm,
  type Parameters,
  states,
} from '#heat-bridge';
import { compileSchema, writeJson } from '#runtime';
import { createStatesCommand, statesParameters } from '../cfn-init/states-command.ts';
import { type CodeGroup, codeGroups, codeRowOf, configSetsInput } from './deployment-groups.ts';
import { readGroupOptions } from './group-config.ts';
import { type Deployment, declaredFacts, heatFactsOf } from './metadata.ts';
import type { DeploymentCall, ResolvedCall } from './resolved-call.ts';

/** Entry of `deployments:` in a catalog file. */
export interface CodeDefinition {
  /**
   * Name of the entry. It has the same form as the name of a command. Rules with the action
   * `command` refer to the entry by this name.
   */
  readonly name: string;
  readonly description: string;
  readonly group: CodeGroup;
  /**
   * Directories in which the groups `hiera` and `json-file` may write files. Default: unrestricted.
   */
  readonly paths?: readonly string[];
  /** Options of the config, set by the operator. */
  readonly options?: Readonly<Record<string, unknown>>;
  /**
   * SHA-256 hashes of the permitted configs, in hex. For a config that is a map, `codeDigest`
   * hashes its JSON. Required unless `unsafe` or `paths` is set.
   */
  readonly sha256?: readonly string[];
  /** Permits any config. */
  readonly unsafe?: 'i-understand';
  /** JSON Schema of the inputs, of type object. Default: no inputs. */
  readonly parameters?: JsonSchema;
  /**
   * Compound target that limits the minions. Deployments on other minions are rejected. Default:
   * all minions.
   */
  readonly within?: string;
  /** Timeout, in seconds. Default: 600. */
  readonly timeout?: number;
}

const Words = Type.String({ minLength: 1, maxLength: 4096 });
const Digest = Type.String({ pattern: '^[0-9a-f]{64}$', description: 'a SHA-256 in hexadecimal' });
const Body = Type.Object(
  {
    description: Words,
    group: Type.Union(codeGroups.map((it) => Type.Literal(it))),
    sha256: Type.Optional(Type.Array(Digest, { minItems: 1, maxItems: 1000 })),
    unsafe: Type.Optional(Type.Literal('i-understand')),
    paths: Type.Optional(
      Type.Array(Type.String({ pattern: '^/', description: 'an absolute path' }), {
        minItems: 1,
        maxItems: 100,
      }),
    ),
    options: Type.Optional(Type.Object({})),
    parameters: Type.Optional(Type.Object({})),
    within: Type.Optional(Words),
    timeout: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 86_400 })),
  },
  { additionalProperties: false },
);
const isBody = compileSchema(Body);

/**
 * Parses an entry of a catalog file.
 * @throws BridgeError ERR_CATALOG
 */
export function parseCodeEntry(name: string, value: unknown): CodeDefinition {
  checkCatalogEntry(name, value, { body: isBody, schema: Body, example: 'site.tune-kernel' });
  const definition = { ...isBody.Parse(value), name } as CodeDefinition; // optional, never undefined
  const { group, sha256, unsafe, paths, options } = definition;
  const row = codeRowOf(group);
  const permissions = [sha256, unsafe, paths].filter((it) => it !== undefined).length;
  if (paths !== undefined && row.permits !== 'config-or-paths') {
    const groups = codeGroups.filter((it) => codeRowOf(it).permits === 'config-or-paths');
    throw catalogError(name, 'paths', `only permitted for the groups ${groups.join(' and ')}`);
  }
  if (row.permits !== 'no-config' && permissions !== 1) {
    const more = row.permits === 'config-or-paths' ? ', `paths`' : '';
    throw catalogError(
      name,
      'sha256',
      `set exactly one of \`sha256\`, \`unsafe: i-understand\`${more}`,
    );
  }
  if (row.permits === 'no-config' && permissions > 0) {
    throw catalogError(
      name,
      'group',
      `deployments of the group ${group} have no code; omit \`sha256\`, \`unsafe\` and \`paths\``,
    );
  }
  try {
    readGroupOptions(group, row.options, undefined, options);
  } catch (error) {
    throw catalogError(name, 'options', error instanceof Error ? error.message : '');
  }
  return definition;
}

/** Groups that pass inputs to the code as environment or playbook variables. */
const variableGroups: ReadonlySet<CodeGroup> = new Set(['ansible', 'puppet', 'script']);
const inputForm = /^(?!__)[A-Za-z_][A-Za-z0-9_-]*$/;

interface CompiledCode {
  readonly definition: CodeDefinition;
  readonly inputs: ReturnType<typeof compileParameters>;
}

/** Catalog of the code that may run. */
export class CodeCatalog {
  readonly #entries: readonly CompiledCode[];
  /**
   * Commands that are created from the catalog's entries. Only deployments can run these commands.
   */
  readonly commands: Catalog;

  /**
   * Compiles catalog entries that permit code of deployments.
   * @throws BridgeError ERR_CATALOG
   */
  constructor(definitions: readonly CodeDefinition[]) {
    this.#entries = definitions.map((definition) => ({
      definition,
      inputs: compileParameters(
        definition.name,
        definition.parameters,
        variableGroups.has(definition.group) ? keywordForm : inputForm,
      ),
    }));
    const isOfStates = ({ group }: CodeDefinition): boolean => codeRowOf(group).runs === 'states';
    this.commands = new Catalog(
      definitions.filter((it) => !isOfStates(it)).map(commandOf),
      definitions.filter(isOfStates).map(statesCommandOf),
    );
  }

  /**
   * Returns the call of the catalog entry that permits a config and its inputs. If no entry permits
   * them, returns the reason.
   * @param mayCall - whether the owner of the deployment may call an entry; the reason mentions
   * only such entries
   */
  resolve(
    deployment: Deployment & { readonly group: CodeGroup },
    mayCall: (entry: string) => boolean,
  ): ResolvedCall {
    const { config, group, inputs } = deployment;
    const digest = codeDigest(config);
    const entries = this.#entries.filter(
      ({ definition }) => definition.group === group && mayCall(definition.name),
    );
    const pinned = entries.find(({ definition }) => definition.sha256?.includes(digest));
    const entry = pinned ?? entries.find(({ definition }) => definition.sha256 === undefined);
    if (entry === undefined) return { ok: false, reason: refusalOf(group, digest, entries) };
    const { name } = entry.definition;
    try {
      // Drop inputs that the entry does not declare, because variables such as PATH or LD_PRELOAD
      // could change which code runs.
      const given = {
        ...declaredFacts(deployment, entry.inputs.names),
        ...usedInputs(group, inputs, entry),
      };
      const values = entry.inputs.check(given, (parameters) =>
        codeRowOf(group).runs === 'sls'
          ? findTextProblem(parameters, entry.inputs.schema, { isRendered: true })
          : undefined,
      );
      return {
        ok: true,
        call: { command: name, ...codeCall(entry.definition, deployment, values) },
      };
    } catch (error) {
      if (error instanceof BridgeError) return { ok: false, reason: error.message };
      throw error;
    }
  }
}

/**
 * Returns the call that executes a permitted config.
 * @throws BridgeError ERR_CFN_INIT
 */
function codeCall(
  { group, options, paths }: CodeDefinition,
  deployment: Deployment,
  inputs: Parameters,
): Pick<DeploymentCall, 'kind' | 'params'> {
  const row = codeRowOf(group);
  const given = {
    ...deployment,
    group,
    inputs,
    facts: heatFactsOf(deployment),
    options: readGroupOptions(group, row.options, deployment.options, options),
    paths,
  };
  switch (row.runs) {
    case 'shell':
      return { kind: 'code', params: { code: row.code(given) } };
    case 'sls':
      return { kind: 'code', params: { tem: row.code(given) } };
    case 'states':
      return { kind: 'states', params: statesParameters(states.compileStates(row.code(given))) };
  }
}

/**
 * Returns the inputs that the code uses. For a deployment group that runs states, these are
 * `configSets` and the inputs that the code names. Heat has already inserted the values of all
 * other inputs into the config.
 */
function usedInputs(
  group: CodeGroup,
  inputs: Deployment['inputs'],
  { inputs: { names } }: CompiledCode,
): Deployment['inputs'] {
  if (codeRowOf(group).runs !== 'states') return inputs;
  const used = Object.entries(inputs).filter(
    ([name]) => names.includes(name) || name === configSetsInput,
  );
  return Object.fromEntries(used);
}

function refusalOf(group: CodeGroup, digest: string, entries: readonly CompiledCode[]): string {
  if (codeRowOf(group).runs === 'sls') {
    return `group ${group}: no catalog entry permits this inline SLS (SHA-256 ${digest})`;
  }
  if (entries.length === 0) {
    return `group "${group}" is not enabled: no catalog entry permits the group or this code (SHA-256 ${digest})`;
  }
  return `group ${group}: no catalog entry permits this code (SHA-256 ${digest})`;
}

/** Parser and validator of the entries below `deployments:` in catalog files. */
export const codeEntries: CatalogEntryKind<CodeDefinition> = {
  key: 'deployments',
  parse: parseCodeEntry,
  check: (definition) => {
    new CodeCatalog([definition]);
  },
};

/**
 * Returns the SHA-256 of a config. A string is hashed verbatim. A map is hashed as JSON with sorted
 * keys and without whitespace.
 */
export function codeDigest(config: Deployment['config']): string {
  const text = typeof config === 'string' ? config : sortedJson(config);
  return hash('sha256', text);
}

/**
 * Serializes JSON with sorted keys. It writes the text directly: in a sorted object, JavaScript
 * would move keys such as `10` to the front.
 */
function sortedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortedJson).join(',')}]`;
  if (!isPlainMap(value)) return writeJson(value ?? null);
  const members = Object.keys(value)
    .sort()
    .map((key) => `${writeJson(key)}:${sortedJson(value[key])}`);
  return `{${members.join(',')}}`;
}

function statesCommandOf({
  name,
  description,
  within,
  timeout = 600,
}: CodeDefinition): ReturnType<Catalog['get']> {
  return createStatesCommand({
    name,
    description,
    timeoutSeconds: timeout,
    ...(within === undefined ? {} : { within }),
  });
}

function commandOf({
  name,
  description,
  group,
  within,
  timeout = 600,
}: CodeDefinition): CommandDefinition {
  return {
    name,
    description,
    ...(codeRowOf(group).runs === 'sls' ? applySls : runCode),
    unsafe: 'i-understand',
    timeoutSeconds: timeout,
    ...(within === undefined ? {} : { within }),
  };
}

type Implementation = Pick<CommandDefinition, 'arguments' | 'function' | 'parameters'>;

const runCode: Implementation = {
  function: 'cmd.exec_code_all',
  parameters: {
    type: 'object',
    required: ['code'],
    properties: {
      code: { type: 'string', 'x-allow-newlines': true, 'x-allow-salt-syntax': true },
    },
  },
  arguments: { lang: { value: '/bin/sh' }, code: { parameter: 'code' } },
};

const applySls: Implementation = {
  function: 'state.template_str',
  parameters: {
    type: 'object',
    required: ['tem'],
    properties: {
      tem: {
        type: 'string',
        'x-allow-newlines': true,
        'x-allow-leading-dash': true,
        'x-allow-salt-syntax': true,
      },
    },
  },
  arguments: { tem: { parameter: 'tem' }, queue: { value: true } },
};
