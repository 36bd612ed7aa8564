/**
 * Compiles Heat templates whose resources have roles in their metadata. The result has two parts: a
 * template for Heat with user-data that enrols the machines, and the roles of a data space. Values
 * that Heat can determine stay expressions in the template.
 */

import {
  findRoleProblems,
  keyOf,
  type Role,
  type RoleWrite,
  splitKey,
  unreadKeys,
} from '../data-spaces/roles.ts';
import { expressionsOf, type RoleResource, roleResourceOf } from './role-resource.ts';
import {
  addUserData,
  formError,
  parameterOf,
  parseTemplate,
  removeMetadata,
  resourcesOf,
} from './template-document.ts';
import {
  findTemplateCycle,
  referencesOf,
  resourceDependencies,
  type TemplateResources,
} from './template-graph.ts';

/** Machine of a template: its resource, its role, and the parameter for its user-data. */
interface TemplateMachine {
  readonly resource: string;
  readonly role: string;
  /**
   * Parameter for the user-data in the compiled template. Absent if the resource accepts no
   * user-data.
   */
  readonly parameter?: string;
}

/** Value that one role reads from another role. Drawings show it as a line. */
export interface ValueFlow {
  readonly key: string;
  readonly from: string;
  readonly to: string;
  readonly by: 'guest' | 'heat';
  readonly secret: boolean;
}

export interface CompiledTemplate {
  /** Compiled template in YAML. */
  readonly template: string;
  /** Roles with the values that guests read and write, in the form of a data space registration. */
  readonly roles: Readonly<Record<string, Role>>;
  readonly machines: readonly TemplateMachine[];
  readonly flows: readonly ValueFlow[];
  /** Warnings for the author of the template. */
  readonly warnings: readonly string[];
}

export interface CompileOptions {
  /** Program on the machines that executes the user-data. Default: `cloud-init`. */
  readonly format?: 'cloud-init' | 'shell';
  /** Directory of the minions' configuration. Default: `/etc/salt`. */
  readonly configDir?: string;
}

/** Resource types of machines that accept no user-data. */
const withoutUserData: ReadonlySet<unknown> = new Set(['OS::Heat::DeployedServer']);

/**
 * Compiles a template without contacting Heat.
 * @throws BridgeError ERR_DATA_FORM, with every problem found
 */
export function compileTemplate(text: string, options: CompileOptions = {}): CompiledTemplate {
  const document = parseTemplate(text);
  const resources = resourcesOf(text);
  const found = Object.keys(resources).flatMap((name) => roleResourceOf(name, resources) ?? []);
  if (found.length === 0) {
    throw formError(['no resource has a role; add metadata: saltbridge: to at least one']);
  }
  const problems = [...writerProblems(found), ...expressionProblems(found, resources)];
  const heatValues = heatValuesOf(found);
  const roles = guestRoles(found, heatValues);
  const unknown = [...findRoleProblems(roles)];
  const cycle = unknown.some(({ kind }) => kind === 'cycle')
    ? undefined
    : cycleOf(found, resources, heatValues);
  problems.push(...unknown.map((it) => it.text));
  if (cycle !== undefined) {
    problems.push(`values wait for each other in a cycle: ${cycle.join(' waits for ')}`);
  }
  if (problems.length > 0) throw formError(problems);
  const warnings = unreadKeys(roles).map(
    (key) => `no role reads the value ${key}, so the compiled template omits it`,
  );
  const expressions = expressionsOf(document, found, heatValues);
  const machines = found.map(({ name, role, reads }): TemplateMachine => {
    const values = Object.fromEntries(
      Object.values(reads).flatMap((key) =>
        expressions.has(key) ? [[key, expressions.get(key)]] : [],
      ),
    );
    removeMetadata(document, name);
    if (withoutUserData.has(resources[name]?.type)) {
      const held = Object.keys(values).length > 0 ? '; it does not receive values from Heat' : '';
      warnings.push(
        `the resource ${name} accepts no user-data; enrol its machine in another way${held}`,
      );
      return { resource: name, role };
    }
    const parts = { name, values, ...options };
    warnings.push(...addUserData(document, parts));
    return { resource: name, role, parameter: parameterOf(name) };
  });
  // Quote only strings that are added. Existing strings stay unchanged.
  const style = {
    lineWidth: 0,
    defaultStringType: 'QUOTE_DOUBLE',
    defaultKeyType: 'PLAIN',
  } as const;
  const template = document.toString(style);
  return { template, roles, machines, flows: flowsOf(found, heatValues), warnings };
}

function writerProblems(found: readonly RoleResource[]): string[] {
  const problems: string[] = [];
  for (const role of new Set(found.map((it) => it.role))) {
    const same = found.filter((it) => it.role === role);
    const names = same.map(({ name }) => name).join(' and ');
    for (const key of new Set(same.flatMap(({ writes }) => Object.keys(writes)))) {
      if (same.length === 1) break;
      const writers = same.filter(({ writes }) => Object.hasOwn(writes, key));
      const who = writers.map(({ name }) => name).join(' and ');
      problems.push(
        writers.length > 1
          ? `several resources write ${keyOf(role, key)}: ${who}`
          : `${who} writes ${keyOf(role, key)}, but ${names} share the role; a role that writes values must have one resource only`,
      );
    }
  }
  return problems;
}

/** Returns the problems of expressions that refer to unknown resources. */
function expressionProblems(
  found: readonly RoleResource[],
  resources: TemplateResources,
): string[] {
  return found.flatMap(({ role, writes }) =>
    Object.entries(writes).flatMap(([key, { value }]) =>
      referencesOf(value)
        .filter((name) => !Object.hasOwn(resources, name))
        .map((name) => `${keyOf(role, key)}: unknown resource "${name}"`),
    ),
  );
}

function heatValuesOf(found: readonly RoleResource[]): ReadonlyMap<string, unknown> {
  return new Map(
    found.flatMap(({ role, writes }) =>
      Object.entries(writes).flatMap(([name, { value }]) =>
        value === undefined ? [] : [[keyOf(role, name), value] as const],
      ),
    ),
  );
}

/** Returns the roles without the values that Heat determines. */
function guestRoles(
  found: readonly RoleResource[],
  heatValues: ReadonlyMap<string, unknown>,
): Readonly<Record<string, Role>> {
  const roles: Record<string, Role> = {};
  for (const { role, reads, writes } of found) {
    const before = roles[role] ?? {};
    const own = Object.entries(writes).filter(([name]) => !heatValues.has(keyOf(role, name)));
    roles[role] = {
      reads: {
        ...before.reads,
        ...Object.fromEntries(Object.entries(reads).filter(([, key]) => !heatValues.has(key))),
      },
      writes: {
        ...before.writes,
        ...Object.fromEntries(own.map(([name, write]) => [name, guestWrite(write, heatValues)])),
      },
    };
  }
  return roles;
}

function guestWrite(write: RoleWrite, heatValues: ReadonlyMap<string, unknown>): RoleWrite {
  if (write.needs === undefined) return write;
  return { ...write, needs: write.needs.filter((key) => !heatValues.has(key)) };
}

function cycleOf(
  found: readonly RoleResource[],
  resources: TemplateResources,
  heatValues: ReadonlyMap<string, unknown>,
): readonly string[] | undefined {
  const plain = Object.fromEntries(
    Object.entries(resources).map(([name, resource]) => [name, withoutRole(resource)]),
  );
  const guestValues = new Map(
    found.flatMap(({ name, role, reads, writes }) =>
      Object.entries(writes)
        .filter(([key]) => !heatValues.has(keyOf(role, key)))
        .map(([key, { needs = Object.values(reads) }]) => {
          return [keyOf(role, key), { resource: name, needs }] as const;
        }),
    ),
  );
  return findTemplateCycle({
    resources: resourceDependencies(plain),
    heatValues: new Map(Array.from(heatValues, ([key, value]) => [key, referencesOf(value)])),
    heatReads: new Map(
      found.map(({ name, reads }) => [
        name,
        Object.values(reads).filter((key) => heatValues.has(key)),
      ]),
    ),
    guestValues,
  });
}

function withoutRole(resource: TemplateResources[string]): TemplateResources[string] {
  const { metadata } = resource;
  if (typeof metadata !== 'object' || metadata === null) return resource;
  return { ...resource, metadata: { ...metadata, saltbridge: null } };
}

function flowsOf(
  found: readonly RoleResource[],
  heatValues: ReadonlyMap<string, unknown>,
): readonly ValueFlow[] {
  const secrets = new Set(
    found.flatMap(({ role, writes }) =>
      Object.entries(writes).flatMap(([name, { secret }]) => (secret ? [keyOf(role, name)] : [])),
    ),
  );
  return found.flatMap(({ role, reads }) =>
    [...new Set(Object.values(reads))].map((key): ValueFlow => {
      const by = heatValues.has(key) ? 'heat' : 'guest';
      return { key, from: splitKey(key).role, to: role, by, secret: secrets.has(key) };
    }),
  );
}
