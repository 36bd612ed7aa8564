/** Validates and compiles the definitions of plans, and finds them by name. */

import type { JsonValue } from '#runtime';
import type { Catalog, CompiledCommand } from '../commands/command-catalog.ts';
import { catalogError, isPlainMap, type JsonSchema } from '../commands/command-definition.ts';
import {
  compileParameters,
  givenParameter,
  type Parameters,
  schemaOfMember,
} from '../commands/parameters.ts';
import { BridgeError } from '../errors.ts';
import type {
  GroupDefinition,
  PlanDefinition,
  StepDefinition,
  StepSource,
  StepSources,
} from './plan-definition.ts';
import { checkGroups, isSingleMinionGroup } from './plan-groups.ts';

// Dependencies of steps.

/** A step, by what it needs. */
export type StepDependencies = ReadonlyMap<string, readonly string[]>;

/** The steps in an order in which each comes after what it needs; `undefined`: there is none. */
export function topologicalOrder(needs: StepDependencies): readonly string[] | undefined {
  const order = new Set<string>();
  for (;;) {
    const ready = [...needs.keys()].filter(
      (step) => !order.has(step) && (needs.get(step) ?? []).every((it) => order.has(it)),
    );
    if (ready.length === 0) break;
    for (const step of ready) order.add(step);
  }
  return order.size === needs.size ? [...order] : undefined;
}

/** All that a step needs, and what that needs. */
export function ancestorsOf(step: string, needs: StepDependencies): ReadonlySet<string> {
  const found = new Set<string>();
  const open = [...(needs.get(step) ?? [])];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next)) continue;
    found.add(next);
    open.push(...(needs.get(next) ?? []));
  }
  return found;
}

// JSON pointers [RFC 6901], in results and their schemas.

const pointerForm = /^(?:\/(?:[^~/]|~[01])*)*$/;
const arrayIndexForm = /^(?:0|[1-9][0-9]{0,8})$/;

/** The keys of a pointer; `undefined`: it is none. */
export function parseJsonPointer(pointer: string): readonly string[] | undefined {
  if (!pointerForm.test(pointer)) return undefined;
  return pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Whether a schema describes what is at a place. */
function isDescribedBySchema(schema: unknown, [key, ...rest]: readonly string[]): boolean {
  if (key === undefined) return isPlainMap(schema) || schema === true;
  const isItem = isPlainMap(schema) && schema.type === 'array' && arrayIndexForm.test(key);
  return isDescribedBySchema(schemaOfMember(schema, isItem ? Number(key) : key), rest);
}

/** What is at a place; `undefined`: nothing. */
export function valueAtPointer(
  value: JsonValue | undefined,
  [key, ...rest]: readonly string[],
): JsonValue | undefined {
  if (key === undefined || value === undefined) return value;
  if (Array.isArray(value))
    return valueAtPointer(arrayIndexForm.test(key) ? value[Number(key)] : undefined, rest);
  if (!isPlainMap(value) || !Object.hasOwn(value, key)) return undefined;
  return valueAtPointer(value[key] as JsonValue, rest); // a member of JSON
}

// Mapping of parameters and earlier results to the parameters of a command.

/** What the only minion of a step returned, by step. */
export type StepReturns = ReadonlyMap<string, JsonValue>;

/** A place in what a step returned. */
export type StepReference = Extract<StepSource, { readonly step: string }>;

/** The plan's parameters that a source looks at. */
function parametersOfStepSource(source: StepSource): string[] {
  if ('parameter' in source) return [source.parameter];
  return 'map' in source ? Object.values(source.map).flatMap(parametersOfStepSource) : [];
}

/** The results that sources look at. */
export function stepReferences(sources: StepSources): StepReference[] {
  return Object.values(sources).flatMap((source) => {
    if ('step' in source) return [source];
    return 'map' in source ? stepReferences(source.map) : [];
  });
}

/** What is not given, or was not returned, is not passed on. */
export function stepParameters(
  sources: StepSources,
  parameters: Parameters,
  returned: StepReturns,
): Parameters {
  const values = Object.entries(sources).flatMap(([key, source]) => {
    const value = valueOfSource(source, parameters, returned);
    return value === undefined ? [] : [[key, value] as const];
  });
  return Object.fromEntries(values);
}

function valueOfSource(
  source: StepSource,
  parameters: Parameters,
  returned: StepReturns,
): JsonValue | undefined {
  if ('parameter' in source) return givenParameter(parameters, source.parameter);
  if ('value' in source) return source.value;
  if ('map' in source) return stepParameters(source.map, parameters, returned);
  return valueAtPointer(returned.get(source.step), parseJsonPointer(source.path) ?? []);
}

// Compilation, which finds every fault of a definition.

/** A command with where its parameters come from. */
export interface MappedCommand {
  readonly command: CompiledCommand;
  readonly sources: StepSources;
}

/** A step that can be run. */
export interface CompiledStep extends MappedCommand {
  readonly name: string;
  readonly definition: StepDefinition;
  readonly undo?: MappedCommand & { readonly failed: boolean };
}

/** A plan that can be run. */
export interface CompiledPlan {
  readonly definition: PlanDefinition;
  /** Each after those that it needs. */
  readonly steps: readonly CompiledStep[];
  readonly needs: StepDependencies;
  /** Parameters that go where a command has a secret, and nowhere else. */
  readonly secret: readonly string[];
  /** With their defaults. @throws BridgeError ERR_COMMAND_PARAMETERS */
  check(parameters: unknown): Parameters;
}

/** @throws BridgeError ERR_CATALOG */
export function compilePlan(definition: PlanDefinition, catalog: Catalog): CompiledPlan {
  const { name, groups } = definition;
  checkGroups(name, groups);
  const { names, check } = compileParameters(name, definition.parameters);
  const needs = dependenciesOf(definition);
  const order = topologicalOrder(needs);
  if (order === undefined) throw catalogError(name, 'steps', 'steps need each other in a circle');
  const compiler = new StepCompiler(definition, catalog, needs, names);
  const steps = order.map((step) => compiler.compile(step));
  const secret = compiler.secretOf(steps);
  return { definition, steps, needs, secret, check };
}

/** @throws BridgeError ERR_CATALOG */
function dependenciesOf({ name, steps }: PlanDefinition): StepDependencies {
  for (const [step, { needs = [] }] of Object.entries(steps)) {
    const unknown = needs.find((it) => !Object.hasOwn(steps, it));
    if (unknown !== undefined) {
      throw catalogError(name, `steps.${step}.needs`, `there is no step ${unknown}`);
    }
  }
  return new Map(Object.entries(steps).map(([step, { needs = [] }]) => [step, needs]));
}

class StepCompiler {
  readonly #plan: PlanDefinition;
  readonly #catalog: Catalog;
  readonly #needs: StepDependencies;
  readonly #parameters: readonly string[];

  constructor(
    plan: PlanDefinition,
    catalog: Catalog,
    needs: StepDependencies,
    parameters: readonly string[],
  ) {
    this.#plan = plan;
    this.#catalog = catalog;
    this.#needs = needs;
    this.#parameters = parameters;
  }

  compile(name: string): CompiledStep {
    const definition = this.#step(name);
    const { group, undo } = definition;
    const field = `steps.${name}`;
    if (!Object.hasOwn(this.#plan.groups, group))
      throw this.#refuse(`${field}.group`, `no group ${group}`);
    const before = ancestorsOf(name, this.#needs);
    const step = { name, definition, ...this.#map(field, definition, before) };
    if (undo === undefined) return step;
    const mapped = this.#map(`${field}.undo`, undo, new Set([...before, name]));
    return { ...step, undo: { ...mapped, failed: undo.failed ?? false } };
  }

  /** @throws BridgeError ERR_CATALOG where a secret would be told, or a parameter goes nowhere */
  secretOf(steps: readonly CompiledStep[]): readonly string[] {
    const uses = steps
      .flatMap(({ undo, ...step }) => (undo === undefined ? [step] : [step, undo]))
      .flatMap(({ command, sources }) =>
        Object.entries(sources).flatMap(([key, source]) => {
          const isSecret = command.definition.secret?.includes(key) === true;
          return parametersOfStepSource(source).map((parameter) => ({ parameter, isSecret }));
        }),
      );
    const secret = this.#parameters.filter((it) =>
      uses.some(({ parameter, isSecret }) => isSecret && parameter === it),
    );
    const told = uses.find(({ parameter, isSecret }) => !isSecret && secret.includes(parameter));
    // protection: plan-secrets-told
    if (told !== undefined) {
      const text = 'it is secret in one command, and is told by another';
      throw this.#refuse(`parameters.${told.parameter}`, text);
    }
    const unused = this.#parameters.find((it) => !uses.some(({ parameter }) => parameter === it));
    if (unused !== undefined) throw this.#refuse(`parameters.${unused}`, 'no step has it');
    return secret;
  }

  #map(
    field: string,
    given: { readonly command: string; readonly params?: StepSources },
    before: ReadonlySet<string>,
  ): MappedCommand {
    const command = this.#command(`${field}.command`, given.command);
    const sources = given.params ?? this.#ownNames(command);
    const { parameters = {} } = command.definition;
    const known = isPlainMap(parameters.properties) ? Object.keys(parameters.properties) : [];
    for (const [key, source] of Object.entries(sources)) {
      const place = `${field}.params.${key}`;
      if (!known.includes(key)) throw this.#refuse(place, `${given.command} has no such parameter`);
      const missing = parametersOfStepSource(source).find((it) => !this.#parameters.includes(it));
      if (missing !== undefined) throw this.#refuse(place, `there is no parameter ${missing}`);
    }
    const needed = Array.isArray(parameters.required) ? parameters.required : [];
    const lacking = needed.find((it) => !Object.hasOwn(sources, it) && !hasDefault(parameters, it));
    if (lacking !== undefined) throw this.#refuse(`${field}.params`, `${lacking} is missing`);
    for (const reference of stepReferences(sources)) this.#checkReference(field, reference, before);
    return { command, sources };
  }

  #checkReference(field: string, { step, path }: StepReference, before: ReadonlySet<string>): void {
    const place = `${field}.params`;
    if (!before.has(step)) throw this.#refuse(place, `${step} is no step that is needed before`);
    const { group: on, command } = this.#step(step);
    const group = this.#plan.groups[on];
    if (group === undefined || !isSingleMinionGroup(group)) {
      throw this.#refuse(place, `the step ${step} may have several minions; it needs max: 1`);
    }
    const { returns } = this.#command(`steps.${step}.command`, command).definition;
    const keys = parseJsonPointer(path);
    if (keys === undefined) throw this.#refuse(place, 'path is no JSON pointer');
    if (returns === undefined || !isDescribedBySchema(returns, keys)) {
      throw this.#refuse(place, `${command} does not say in returns that it gives this`);
    }
  }

  #ownNames(command: CompiledCommand): StepSources {
    const { properties } = command.definition.parameters ?? {};
    const own = isPlainMap(properties) ? Object.keys(properties) : [];
    const shared = own.filter((it) => this.#parameters.includes(it));
    return Object.fromEntries(shared.map((parameter) => [parameter, { parameter }]));
  }

  #step(name: string): StepDefinition {
    const step = this.#plan.steps[name];
    if (step === undefined) throw this.#refuse('steps', `there is no step ${name}`);
    return step;
  }

  #command(field: string, name: string): CompiledCommand {
    try {
      return this.#catalog.get(name);
    } catch (error) {
      if (!(error instanceof BridgeError)) throw error;
      throw this.#refuse(field, 'no command of this name is in the catalog');
    }
  }

  #refuse(field: string, problem: string): BridgeError {
    return catalogError(this.#plan.name, field, problem);
  }
}

function hasDefault({ properties }: Readonly<Record<string, unknown>>, key: string): boolean {
  const property = isPlainMap(properties) ? properties[key] : undefined;
  return isPlainMap(property) && 'default' in property;
}

/** Plans that can be run. */
export class PlanCatalog {
  readonly #plans: ReadonlyMap<string, CompiledPlan>;

  /** @throws BridgeError ERR_CATALOG */
  constructor(definitions: readonly PlanDefinition[], catalog: Catalog) {
    const plans = new Map<string, CompiledPlan>();
    for (const definition of definitions) {
      const { name } = definition;
      if (plans.has(name)) throw catalogError(name, '', 'there is a plan of this name already');
      plans.set(name, compilePlan(definition, catalog));
    }
    this.#plans = plans;
  }

  /** In the order of their names. */
  list(): readonly CompiledPlan[] {
    return [...this.#plans.values()].sort((a, b) =>
      a.definition.name < b.definition.name ? -1 : 1,
    );
  }

  /** @throws BridgeError ERR_PLAN_UNKNOWN */
  get(name: string): CompiledPlan {
    const found = this.#plans.get(name);
    if (found !== undefined) return found;
    const text = 'no plan of this name is in the catalog';
    throw new BridgeError('ERR_PLAN_UNKNOWN', text);
  }
}

// The public description of a plan.

/** A step, as far as callers are told. */
export interface StepInfo {
  readonly name: string;
  readonly command: string;
  readonly group: string;
  readonly needs: readonly string[];
  readonly onFailure: 'stop' | 'continue';
  /** The command that takes it back. */
  readonly undo?: string;
}

/** What is told of a plan. */
export interface PlanInfo {
  readonly name: string;
  readonly description: string;
  readonly version: number;
  readonly parameters: JsonSchema;
  readonly secret: readonly string[];
  readonly groups: Readonly<Record<string, GroupDefinition>>;
  /** Each after those that it needs. */
  readonly steps: readonly StepInfo[];
  /** Seconds. */
  readonly timeout: number;
  readonly parallel: number;
  readonly deprecated?: string;
}

export function describePlan({ definition, steps, secret }: CompiledPlan): PlanInfo {
  const { name, description, groups, deprecated } = definition;
  return {
    name,
    description,
    version: definition.version ?? 1,
    parameters: definition.parameters ?? { type: 'object', properties: {} },
    secret,
    groups,
    steps: steps.map(({ name: step, definition: { command, group, needs, onFailure, undo } }) => ({
      name: step,
      command,
      group,
      needs: needs ?? [],
      onFailure: onFailure ?? 'stop',
      ...(undo === undefined ? {} : { undo: undo.command }),
    })),
    timeout: definition.timeoutSeconds ?? 600,
    parallel: definition.parallel ?? 8,
    ...(deprecated === undefined ? {} : { deprecated }),
  };
}

/** The groups that a caller gives. */
export function givenGroups({ groups }: Pick<PlanInfo, 'groups'>): readonly string[] {
  return Object.keys(groups).filter((name) => groups[name]?.from === undefined);
}

/** Whether each of its commands may be called. */
export function mayRunPlan({ steps }: PlanInfo, mayCall: (command: string) => boolean): boolean {
  return steps.every(
    ({ command, undo }) => mayCall(command) && (undo === undefined || mayCall(undo)),
  );
}
