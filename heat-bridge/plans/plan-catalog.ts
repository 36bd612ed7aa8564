/** Compiled plans of a catalog. Errors in a definition are found before a plan runs. */

import type { Catalog, CompiledCommand } from '../commands/command-catalog.ts';
import { catalogError, isPlainMap } from '../commands/command-definition.ts';
import type { Parameters } from '../commands/parameters.ts';
import { compileParameters } from '../commands/parameters.ts';
import { BridgeError } from '../errors.ts';
import { isDescribedBySchema, parseJsonPointer } from './json-pointer.ts';
import type { PlanDefinition, StepDefinition, StepSources } from './plan-definition.ts';
import { checkGroups, isSingleMinionGroup } from './plan-groups.ts';
import { parametersOfStepSource, type StepReference, stepReferences } from './step-parameters.ts';
import { ancestorsOf, type StepDependencies, topologicalOrder } from './step-schedule.ts';

/** Command, with the sources of its parameters' values. */
export interface MappedCommand {
  readonly command: CompiledCommand;
  readonly sources: StepSources;
}

/** Compiled step. */
export interface CompiledStep extends MappedCommand {
  readonly name: string;
  readonly definition: StepDefinition;
  readonly undo?: MappedCommand & { readonly failed: boolean };
}

/** Compiled plan. */
export interface CompiledPlan {
  readonly definition: PlanDefinition;
  /** Steps of the plan, sorted so that each step comes after all steps that it needs. */
  readonly steps: readonly CompiledStep[];
  readonly needs: StepDependencies;
  /**
   * Names of the plan's secret parameters. The plan passes their values only to secret parameters
   * of commands.
   */
  readonly secret: readonly string[];
  /**
   * Validates parameters, and adds defaults.
   * @throws BridgeError ERR_COMMAND_PARAMETERS
   */
  check(parameters: unknown): Parameters;
}

/**
 * Compiles a plan.
 * @throws BridgeError ERR_CATALOG
 */
export function compilePlan(definition: PlanDefinition, catalog: Catalog): CompiledPlan {
  const { name, groups } = definition;
  checkGroups(name, groups);
  const { names, check } = compileParameters(name, definition.parameters);
  const needs = dependenciesOf(definition);
  const order = topologicalOrder(needs);
  if (order === undefined)
    throw catalogError(
      name,
      'steps',
      'the steps depend on each other in a cycle; correct the field `needs`',
    );
  const compiler = new StepCompiler(definition, catalog, needs, names);
  const steps = order.map((step) => compiler.compile(step));
  const secret = compiler.secretOf(steps);
  return { definition, steps, needs, secret, check };
}

/**
 * Returns the steps on which each step depends.
 * @throws BridgeError ERR_CATALOG
 */
function dependenciesOf({ name, steps }: PlanDefinition): StepDependencies {
  for (const [step, { needs = [] }] of Object.entries(steps)) {
    const unknown = needs.find((it) => !Object.hasOwn(steps, it));
    if (unknown !== undefined) {
      throw catalogError(name, `steps.${step}.needs`, `unknown step ${unknown}`);
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
      throw this.#refuse(`${field}.group`, `unknown group ${group}`);
    const before = ancestorsOf(name, this.#needs);
    const step = { name, definition, ...this.#map(field, definition, before) };
    if (undo === undefined) return step;
    const mapped = this.#map(`${field}.undo`, undo, new Set([...before, name]));
    return { ...step, undo: { ...mapped, failed: undo.failed ?? false } };
  }

  /**
   * Returns the names of the plan's secret parameters.
   * @throws BridgeError ERR_CATALOG if a command would expose a secret parameter, or if a parameter
   * is unused
   */
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
    const exposed = uses.find(({ parameter, isSecret }) => !isSecret && secret.includes(parameter));
    if (exposed !== undefined) {
      const text =
        'one step passes this parameter to a secret parameter, another step to an argument that is not secret';
      throw this.#refuse(`parameters.${exposed.parameter}`, text);
    }
    const unused = this.#parameters.find((it) => !uses.some(({ parameter }) => parameter === it));
    if (unused !== undefined)
      throw this.#refuse(
        `parameters.${unused}`,
        'no step uses this parameter; remove it, or refer to it in a step',
      );
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
      if (!known.includes(key))
        throw this.#refuse(place, `the command ${given.command} has no parameter with this name`);
      const missing = parametersOfStepSource(source).find((it) => !this.#parameters.includes(it));
      if (missing !== undefined)
        throw this.#refuse(
          place,
          `refers to the parameter ${missing}, which the plan does not declare`,
        );
    }
    const needed = Array.isArray(parameters.required) ? parameters.required : [];
    const lacking = needed.find((it) => !Object.hasOwn(sources, it) && !hasDefault(parameters, it));
    if (lacking !== undefined)
      throw this.#refuse(
        `${field}.params`,
        `the required parameter ${lacking} of the command is missing`,
      );
    for (const reference of stepReferences(sources)) this.#checkReference(field, reference, before);
    return { command, sources };
  }

  #checkReference(field: string, { step, path }: StepReference, before: ReadonlySet<string>): void {
    const place = `${field}.params`;
    if (!before.has(step))
      throw this.#refuse(
        place,
        `refers to the step ${step}, which does not run before this step; add it to \`needs\``,
      );
    const { group: on, command } = this.#step(step);
    const group = this.#plan.groups[on];
    if (group === undefined || !isSingleMinionGroup(group)) {
      throw this.#refuse(
        place,
        `refers to the step ${step}, which can run on several minions; set \`max: 1\` on its group`,
      );
    }
    const { returns } = this.#command(`steps.${step}.command`, command).definition;
    const keys = parseJsonPointer(path);
    if (keys === undefined)
      throw this.#refuse(place, '`path` must be a JSON pointer, for example /address');
    if (returns === undefined || !isDescribedBySchema(returns, keys)) {
      throw this.#refuse(
        place,
        `\`path\` must exist in the schema of the field \`returns\` of the command ${command}`,
      );
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
    if (step === undefined) throw this.#refuse('steps', `unknown step ${name}`);
    return step;
  }

  #command(field: string, name: string): CompiledCommand {
    try {
      return this.#catalog.get(name);
    } catch (error) {
      if (!(error instanceof BridgeError)) throw error;
      throw this.#refuse(field, 'no command in the catalog has this name');
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

/** Catalog of compiled plans. */
export class PlanCatalog {
  readonly #plans: ReadonlyMap<string, CompiledPlan>;

  /**
   * Compiles the definitions.
   * @throws BridgeError ERR_CATALOG
   */
  constructor(definitions: readonly PlanDefinition[], catalog: Catalog) {
    const plans = new Map<string, CompiledPlan>();
    for (const definition of definitions) {
      const { name } = definition;
      if (plans.has(name)) throw catalogError(name, '', 'duplicate plan name');
      plans.set(name, compilePlan(definition, catalog));
    }
    this.#plans = plans;
  }

  /** Returns the plans, sorted by name. */
  list(): readonly CompiledPlan[] {
    return [...this.#plans.values()].sort((a, b) =>
      a.definition.name < b.definition.name ? -1 : 1,
    );
  }

  /**
   * Returns the plan with this name.
   * @param isShown - whether the caller may know that the plan exists. Default: it may
   * @throws BridgeError ERR_PLAN_UNKNOWN
   */
  get(name: string, isShown: (plan: CompiledPlan) => boolean = () => true): CompiledPlan {
    const found = this.#plans.get(name);
    if (found !== undefined && isShown(found)) return found;
    const text = 'the catalog has no plan with this name that the caller may run';
    throw new BridgeError('ERR_PLAN_UNKNOWN', text);
  }
}
