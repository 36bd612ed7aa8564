/** A plan as somebody writes it: in a file of the catalog below `plans:`, or in a program. */

import type { Static, TSchema } from 'typebox';
import Type from 'typebox';
import type { JsonValue } from '#runtime';
import { compileSchema } from '#runtime';
import {
  catalogError,
  catalogNameForm,
  isPlainMap,
  type JsonSchema,
  refuseForm,
  withDefinitionOptionNames,
  withOptionNames,
} from '../commands/command-definition.ts';

/** Where the value of a command's parameter comes from. */
export type StepSource =
  /** The plan's parameter of this name. */
  | { readonly parameter: string }
  /** Always this. */
  | { readonly value: JsonValue }
  /** What a step that was needed returned, at a JSON pointer [RFC 6901]. */
  | { readonly step: string; readonly path: string }
  /** A map, each value of which comes from somewhere. */
  | { readonly map: Readonly<Record<string, StepSource>> };

/** By parameter of a command. */
export type StepSources = Readonly<Record<string, StepSource>>;

/** Minions that steps are for; {@link GroupSchema} documents the fields. */
export type GroupDefinition = Readonly<Static<typeof GroupSchema>>;

const strict = { additionalProperties: false };
const Words = Type.String({ minLength: 1, maxLength: 4096 });
/** Names of groups and steps. */
const word = '^[a-z][a-z0-9-]{0,63}$';
const Word = Type.String({ pattern: word });
const Count = Type.Integer({ minimum: 0, maximum: 1_000_000 });
const Sources = Type.Unsafe<StepSources>(Type.Record(Type.String(), Type.Unknown()));
const Schema = Type.Unsafe<JsonSchema>(Type.Object({}));

/** Minions that steps are for: given by the caller, or part of another group. */
export const GroupSchema = Type.Object(
  {
    description: Type.Optional(Words),
    /** Minimum number of minions. Default 1; of a `rest` 0. */
    min: Type.Optional(Count),
    /** Maximum number of minions. Default: any number. */
    max: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
    /** Group that it is part of. Default: the caller gives the minions. */
    from: Type.Optional(Word),
    /** Part of that group: its first minion, or all but the first. */
    select: Type.Optional(Type.Union([Type.Literal('first'), Type.Literal('rest')])),
  },
  strict,
);
/** Command that undoes a step. */
const Undo = Type.Object(
  {
    command: Words,
    /** Default: each of the plan's parameters under its own name. */
    params: Type.Optional(Sources),
    /** Whether it also runs on minions where the step did not succeed. Default false. */
    failed: Type.Optional(Type.Boolean()),
  },
  strict,
);
const Step = Type.Object(
  {
    command: Words,
    /** Name of the group. */
    group: Word,
    /** Default: each of the plan's parameters under its own name. */
    params: Type.Optional(Sources),
    /** Steps that must have succeeded. Default: none. */
    needs: Type.Optional(Type.Unsafe<readonly string[]>(Type.Array(Word))),
    /** Minions at a time: a number, or a share of them such as `25%`. Default: all of them. */
    batchSize: Type.Optional(
      Type.Union([
        Type.Integer({ minimum: 1, maximum: 1_000_000 }),
        Type.String({ pattern: '^([1-9][0-9]?|100)%$' }),
      ]),
    ),
    /** The step fails when more minions than this fail. Default 0. */
    maxFailures: Type.Optional(Count),
    /** Whether its failure ends the plan. Default `stop`. */
    onFailure: Type.Optional(Type.Union([Type.Literal('stop'), Type.Literal('continue')])),
    undo: Type.Optional(Undo),
  },
  strict,
);

/** A named command on a group. */
export type StepDefinition = Readonly<Static<typeof Step>>;

const names = { ...strict, minProperties: 1 };
/** What stands behind a name in a file. */
const PlanBody = Type.Object(
  {
    /** Effect of the plan, for callers. */
    description: Words,
    /** It grows when callers must change something. Default 1. */
    version: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
    /** JSON Schema of an object. Default: no parameters. */
    parameters: Type.Optional(Schema),
    groups: Type.Unsafe<Readonly<Record<string, GroupDefinition>>>(
      Type.Record(Type.String({ pattern: word }), GroupSchema, { ...names, maxProperties: 32 }),
    ),
    steps: Type.Unsafe<Readonly<Record<string, StepDefinition>>>(
      Type.Record(Type.String({ pattern: word }), Step, { ...names, maxProperties: 128 }),
    ),
    /** Maximum duration of its steps, without undoing them. Default 600. In files `timeout`. */
    timeoutSeconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 86_400 })),
    /** Steps at a time. Default 8. */
    parallel: Type.Optional(Type.Integer({ minimum: 1, maximum: 64 })),
    /** Replacement for callers of a deprecated plan. */
    deprecated: Type.Optional(Words),
  },
  strict,
);
const compiledPlanBody = compileSchema(PlanBody);

/** Several commands as one. */
export interface PlanDefinition extends Readonly<Static<typeof PlanBody>> {
  /** In the form of a command's. */
  readonly name: string;
}

const maxDepth = 16;

/**
 * Reads what stands behind a name. A parameter's source may be written as the name of a parameter.
 * @throws BridgeError ERR_CATALOG
 */
export function parsePlanDefinition(name: string, value: unknown): PlanDefinition {
  if (!catalogNameForm.test(name) || name.length > 128) {
    throw catalogError(name, '', 'expected a name such as mysql.create-cluster');
  }
  refuseForm(name, value, { body: compiledPlanBody, schema: PlanBody });
  const { steps, ...rest } = compiledPlanBody.Parse(value);
  const read = Object.entries(steps).map(([key, { params, undo, ...step }]) => [
    key,
    {
      ...step,
      ...parseStepSources(name, `steps.${key}.params`, params),
      ...(undo === undefined ? {} : { undo: parseUndo(name, `steps.${key}.undo`, undo) }),
    },
  ]);
  return { ...rest, name, steps: Object.fromEntries(read) };
}

/** Fields of a step in files, with the options of programs that they mean. */
const stepFields: ReadonlyMap<string, string> = new Map([
  ['batch_size', 'batchSize'],
  ['max_failures', 'maxFailures'],
  ['on_failure', 'onFailure'],
]);

/** Reads a plan of a catalog file. @throws BridgeError ERR_CATALOG */
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
): Static<typeof Undo> {
  return { ...undo, ...parseStepSources(name, `${field}.params`, params) };
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

/** @throws BridgeError ERR_CATALOG */
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
  const forms = 'the name of a parameter, {value: …}, {step: …, path: …} or {map: {…}}';
  throw catalogError(name, field, `expected ${forms}`);
}

/** A plan whose parameters and groups are typed. */
export interface TypedPlan<N extends string, P, G extends string> extends PlanDefinition {
  readonly name: N;
  /** Of types alone. */
  readonly '~params'?: P;
  /** Of types alone: the groups that a caller gives. */
  readonly '~groups'?: G;
}

/** The groups of a definition that a caller gives. */
type GivenGroups<G> = {
  [K in keyof G & string]: G[K] extends { readonly from: string } ? never : K;
}[keyof G & string];

/**
 * A plan in a program, typed by its TypeBox schema and its groups.
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
  // The schema as JSON: what TypeBox knows of it besides is of types alone.
  const parameters: unknown = JSON.parse(JSON.stringify(definition.parameters));
  return parsePlanDefinition(name, { ...definition, parameters }) as TypedPlan<
    N,
    Static<S>,
    GivenGroups<G>
  >;
}
