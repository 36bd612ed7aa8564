/** Definition of a plan, from `plans:` in a catalog file or from a program. */

import type { Static, TSchema } from 'typebox';
import Type from 'typebox';
import { plainNumbers } from '#minion-protocol';
import type { JsonValue } from '#runtime';
import { compileSchema } from '#runtime';
import {
  catalogError,
  catalogNameForm,
  exactMember,
  isPlainMap,
  type JsonSchema,
  refuseForm,
  withDefinitionOptionNames,
  withOptionNames,
} from '../commands/command-definition.ts';

/** Source from which a parameter of a command gets its value. */
export type StepSource =
  /** Value of the plan's parameter with this name. */
  | { readonly parameter: string }
  /** Constant value. */
  | { readonly value: JsonValue }
  /** Value in the return of an earlier step, at a JSON pointer [RFC 6901]. */
  | { readonly step: string; readonly path: string }
  /** Map in which each value has its own source. */
  | { readonly map: Readonly<Record<string, StepSource>> };

/** For each parameter of a step's command, the source of its value. */
export type StepSources = Readonly<Record<string, StepSource>>;

/** Group of minions on which steps run; {@link GroupSchema} documents the fields. */
export type GroupDefinition = Readonly<Static<typeof GroupSchema>>;

const strict = { additionalProperties: false };
const Words = Type.String({ minLength: 1, maxLength: 4096 });
/** Form of names of groups and steps. */
const word = '^[a-z][a-z0-9-]{0,63}$';
const Word = Type.String({ pattern: word });
const Count = Type.Integer({ minimum: 0, maximum: 1_000_000 });
const Sources = Type.Unsafe<StepSources>(Type.Record(Type.String(), Type.Unknown()));
const Schema = Type.Unsafe<JsonSchema>(Type.Object({}));

/**
 * Group of minions on which steps run. A group has a target from the caller, or is a part of
 * another group.
 */
export const GroupSchema = Type.Object(
  {
    description: Type.Optional(Words),
    /** Minimum number of minions. Default: 0 with `select: rest`, otherwise 1. */
    min: Type.Optional(Count),
    /** Maximum number of minions. Default: unlimited. */
    max: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
    /**
     * Name of the group of which this group is a part. Default: none; the caller then gives the
     * target of this group.
     */
    from: Type.Optional(Word),
    /** Part of the group `from`: its first minion, or all except the first. */
    select: Type.Optional(Type.Union([Type.Literal('first'), Type.Literal('rest')])),
  },
  strict,
);
/** Command that undoes a step. */
const Undo = Type.Object(
  {
    command: Words,
    /**
     * Sources of the values of the command's parameters. Default: the plan's parameters with the
     * same names.
     */
    params: Type.Optional(Sources),
    /**
     * Whether to run the command also on minions where the step itself has failed. Default: false.
     */
    failed: Type.Optional(Type.Boolean()),
  },
  strict,
);
const Step = Type.Object(
  {
    command: Words,
    /** Name of the group on which the step runs. */
    group: Word,
    /**
     * Sources of the values of the command's parameters. Default: the plan's parameters with the
     * same names.
     */
    params: Type.Optional(Sources),
    /** Steps that must succeed before this step starts. Default: none. */
    needs: Type.Optional(Type.Unsafe<readonly string[]>(Type.Array(Word))),
    /**
     * Maximum number of minions on which the command runs at a time, or a percentage such as `25%`.
     * Default: all minions.
     */
    batchSize: Type.Optional(
      Type.Union([
        Type.Integer({ minimum: 1, maximum: 1_000_000 }),
        Type.String({ pattern: '^([1-9][0-9]?|100)%$' }),
      ]),
    ),
    /** Number of minions on which the command may fail without failing the step. Default: 0. */
    maxFailures: Type.Optional(Count),
    /**
     * Effect of a failure of this step. `stop`: the plan fails, and undoes its completed steps.
     * `continue`: the plan skips only the steps that need this one. Default: `stop`.
     */
    onFailure: Type.Optional(Type.Union([Type.Literal('stop'), Type.Literal('continue')])),
    undo: Type.Optional(Undo),
  },
  strict,
);

/** Step of a plan: a named command that runs on a group. */
export type StepDefinition = Readonly<Static<typeof Step>>;

const names = { ...strict, minProperties: 1 };
/** Fields of a definition except its name, as in catalog files. */
const PlanBody = Type.Object(
  {
    /** Description of the effect, for callers. */
    description: Words,
    /** Version of the plan. Increase it when callers must be changed. Default: 1. */
    version: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
    /** JSON Schema of the parameters, of type object. Default: no parameters. */
    parameters: Type.Optional(Schema),
    groups: Type.Unsafe<Readonly<Record<string, GroupDefinition>>>(
      Type.Record(Type.String({ pattern: word }), GroupSchema, { ...names, maxProperties: 32 }),
    ),
    steps: Type.Unsafe<Readonly<Record<string, StepDefinition>>>(
      Type.Record(Type.String({ pattern: word }), Step, { ...names, maxProperties: 128 }),
    ),
    /**
     * Maximum duration of the steps, in seconds, without the time for undoing them. Default: 600.
     * In files: `timeout`.
     */
    timeoutSeconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 86_400 })),
    /** Maximum number of concurrent steps. Default: 8. */
    parallel: Type.Optional(Type.Integer({ minimum: 1, maximum: 64 })),
    /** Advice for callers of a deprecated plan: its replacement. */
    deprecated: Type.Optional(Words),
  },
  strict,
);
const compiledPlanBody = compileSchema(PlanBody);

/** Plan: several commands that run as one. */
export interface PlanDefinition extends Readonly<Static<typeof PlanBody>> {
  /** Name of the plan, in the form of a command's name. */
  readonly name: string;
}

const maxDepth = 16;

/**
 * Parses the definition of a plan. To take a value from a parameter of the plan, the definition may
 * state just the parameter's name, as in catalog files.
 * @throws BridgeError ERR_CATALOG
 */
export function parsePlanDefinition(name: string, value: unknown): PlanDefinition {
  if (!catalogNameForm.test(name) || name.length > 128) {
    throw catalogError(name, '', 'invalid name; use a name such as mysql.create-cluster');
  }
  const plain = plainNumbers(value);
  refuseForm(name, plain, { body: compiledPlanBody, schema: PlanBody });
  const { steps, ...rest } = compiledPlanBody.Parse(plain);
  // Values in steps and defaults of parameters keep floats without a fraction.
  const exact = exactMember(value, 'steps');
  const read = Object.entries(steps).map(([key, { params, undo, ...step }]) => {
    const own = exactMember(exact, key);
    return [
      key,
      {
        ...step,
        ...parseStepSources(name, `steps.${key}.params`, exactMember(own, 'params') ?? params),
        ...(undo === undefined
          ? {}
          : { undo: parseUndo(name, `steps.${key}.undo`, undo, exactMember(own, 'undo')) }),
      },
    ];
  });
  const parameters = exactMember(value, 'parameters');
  return {
    ...rest,
    ...(parameters === undefined ? {} : { parameters }),
    name,
    steps: Object.fromEntries(read),
  };
}

/**
 * Names of a step's fields in TypeScript, by the names of the same fields in catalog files.
 * Contains only fields whose names differ.
 */
const stepFields: ReadonlyMap<string, string> = new Map([
  ['batch_size', 'batchSize'],
  ['max_failures', 'maxFailures'],
  ['on_failure', 'onFailure'],
]);

/**
 * Parses a plan of a catalog file.
 * @throws BridgeError ERR_CATALOG
 */
export function parsePlanEntry(name: string, value: unknown): PlanDefinition {
  if (!isPlainMap(value)) return parsePlanDefinition(name, value);
  const given = withDefinitionOptionNames(name, value);
  if (!isPlainMap(value.steps)) return parsePlanDefinition(name, given);
  const steps = Object.entries(value.steps).map(([key, step]) => [
    key,
    withOptionNames(step, {
      names: stepFields,
      refuse: (field, problem) => catalogError(name, `steps.${key}.${field}`, problem),
    }),
  ]);
  return parsePlanDefinition(name, { ...given, steps: Object.fromEntries(steps) });
}

function parseUndo(
  name: string,
  field: string,
  { params, ...undo }: Static<typeof Undo>,
  exact: unknown,
): Static<typeof Undo> {
  const sources = exactMember(exact, 'params') ?? params;
  return { ...undo, ...parseStepSources(name, `${field}.params`, sources) };
}

function parseStepSources(
  name: string,
  field: string,
  given: Readonly<Record<string, unknown>> | undefined,
): { readonly params?: StepSources } {
  if (given === undefined) return {};
  const sources = Object.entries(given).map(([key, source]) => [
    key,
    parseStepSource(name, `${field}.${key}`, source, 0),
  ]);
  return { params: Object.fromEntries(sources) };
}

/**
 * Parses the part of a definition that says where a parameter gets its value from.
 * @throws BridgeError ERR_CATALOG
 */
function parseStepSource(name: string, field: string, value: unknown, depth: number): StepSource {
  if (typeof value === 'string') return { parameter: value };
  const map = isPlainMap(value) && depth < maxDepth ? value : {};
  const { parameter, step, path = '', map: inner } = map;
  switch (Object.keys(map).sort().join()) {
    case 'parameter':
      if (typeof parameter === 'string') return { parameter };
      break;
    case 'value':
      return { value: map.value as JsonValue }; // from YAML or a program's JSON
    case 'step':
    case 'path,step':
      if (typeof step === 'string' && typeof path === 'string') return { step, path };
      break;
    case 'map':
      if (isPlainMap(inner)) {
        const entries = Object.entries(inner).map(([key, one]) => [
          key,
          parseStepSource(name, `${field}.${key}`, one, depth + 1),
        ]);
        return { map: Object.fromEntries(entries) };
      }
  }
  const forms = 'the name of a parameter, or a map {value: …}, {step: …, path: …} or {map: {…}}';
  throw catalogError(name, field, `must be ${forms}`);
}

/** Plan whose parameters and groups have static types. */
export interface TypedPlan<N extends string, P, G extends string> extends PlanDefinition {
  readonly name: N;
  /** Exists for type inference only. */
  readonly '~params'?: P;
  /** Names of the groups for which the caller gives targets. Exists for type inference only. */
  readonly '~groups'?: G;
}

/** Names of the groups for which the caller gives targets. */
type GivenGroups<G> = {
  [K in keyof G & string]: G[K] extends { readonly from: string } ? never : K;
}[keyof G & string];

/**
 * Defines a plan in a program. The static types of its parameters and groups are derived from a
 * TypeBox schema and the definition.
 * @throws BridgeError ERR_CATALOG
 */
export function definePlan<
  const N extends string,
  S extends TSchema,
  const G extends Readonly<Record<string, GroupDefinition>>,
>(
  name: N,
  definition: Omit<PlanDefinition, 'name' | 'parameters' | 'groups'> & {
    readonly parameters: S;
    readonly groups: G;
  },
): TypedPlan<N, Static<S>, GivenGroups<G>> {
  // Convert the schema to JSON, which drops TypeBox's type information.
  const parameters: unknown = JSON.parse(JSON.stringify(definition.parameters));
  return parsePlanDefinition(name, { ...definition, parameters }) as TypedPlan<
    N,
    Static<S>,
    GivenGroups<G>
  >;
}
