/** Definition of a named command, in a catalog file or in a program. */

import type { Static, TSchema } from 'typebox';
import Type from 'typebox';
import { plainNumbers, type WireValue } from '#minion-protocol';
import { compileSchema, type JsonValue, schemaMistakes } from '#runtime';
import { Float } from '#template/python/values.ts';
import { type BridgeError, CatalogError } from '../errors.ts';

/** JSON Schema; docs/policy.md lists the supported keywords. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** Source from which a keyword argument gets its value. */
export type ArgumentSource =
  /** Value of the parameter with this name. */
  | { readonly parameter: string }
  /** Constant value. */
  | { readonly value: JsonValue }
  /** A map whose values each have their own source. */
  | { readonly map: Readonly<Record<string, ArgumentSource>> };

/** Form of keyword arguments of Python functions. Salt reserves names that begin with `__`. */
export const keywordForm: RegExp = /^(?!__)[A-Za-z_][A-Za-z0-9_]*$/;

const strict = { additionalProperties: false };
const Words = Type.String({ minLength: 1, maxLength: 4096 });
/**
 * Field that contains a JSON Schema. The field must be a map. The content of the map is checked
 * later, when the schema is compiled.
 */
const Schema = Type.Unsafe<JsonSchema>(Type.Object({}));
const Count = Type.Integer({ minimum: 1, maximum: 1_000_000 });

/** Limits on concurrent runs of one command. */
const Concurrency = Type.Object(
  {
    /** Maximum number of runs on one minion. Default: unlimited. */
    perTarget: Type.Optional(Count),
    /** Maximum number of runs in total. Default: unlimited. */
    total: Type.Optional(Count),
    /**
     * Maximum number of runs that wait while the limit `perTarget` or `total` is reached. A run
     * waits until its deadline. Default: 0.
     */
    queue: Type.Optional(Type.Integer({ minimum: 0, maximum: 100_000 })),
  },
  strict,
);

/** Fields of a definition except its name, as in catalog files. */
const CommandBody = Type.Object(
  {
    /** Description of the effect, for callers. */
    description: Words,
    /** Version of the command. Increase it when callers must be changed. Default: 1. */
    version: Type.Optional(Count),
    /**
     * Function that minions execute: `module.function`. Set exactly one of `function`, `state` and
     * `install`.
     */
    function: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)+$',
        description: 'a function such as test.ping',
      }),
    ),
    /** State file of the master, applied with `state.apply`. */
    state: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9_][A-Za-z0-9_-]*(\\.[A-Za-z0-9_-]+)*$',
        description: 'the name of a state file such as mysql.user',
      }),
    ),
    /**
     * Packages, files, services and other content of a machine, as ordered groups. docs/install.md
     * describes the fields.
     */
    install: Type.Optional(
      Type.Unsafe<readonly Readonly<Record<string, unknown>>[]>(
        Type.Array(Type.Object({}), { minItems: 1, maxItems: 64 }),
      ),
    ),
    /** JSON Schema of the parameters, of type object. Default: no parameters. */
    parameters: Type.Optional(Schema),
    /**
     * Sources of argument values, by keyword of the function or by key of the state's `pillar`.
     * Default: each parameter is passed under its own name.
     */
    arguments: Type.Optional(
      Type.Unsafe<Readonly<Record<string, ArgumentSource>>>(
        Type.Record(Type.String(), Type.Unknown()),
      ),
    ),
    /**
     * Names of secret parameters, which must not appear in publications, logs, events and jobs.
     * Supported only with `state` and `install`.
     */
    secret: Type.Optional(Type.Unsafe<readonly string[]>(Type.Array(Words))),
    /**
     * Compound target that limits the minions. Runs on other minions are rejected for every caller.
     */
    within: Type.Optional(Words),
    /** Maximum duration of a run with its retries, in seconds. Default: 60. In files: `timeout`. */
    timeoutSeconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 86_400 })),
    /** Number of retries on minions that failed or did not respond. Default: 0. */
    retries: Type.Optional(Type.Integer({ minimum: 0, maximum: 10 })),
    /**
     * Whether a repeated run of the command has no further effect. Only idempotent commands are
     * retried. Default: false.
     */
    idempotent: Type.Optional(Type.Boolean()),
    concurrency: Type.Optional(Concurrency),
    /** JSON Schema of the value that a minion returns. Default: any value. */
    returns: Type.Optional(Schema),
    /**
     * JSON Schema of a successful return, which must also have the retcode 0. Default: any value.
     */
    success: Type.Optional(Schema),
    /** Advice for callers of a deprecated command: its replacement. */
    deprecated: Type.Optional(Words),
    /**
     * Reason why the operator exposes a function that saltbridge's lists of reviewed and unsafe
     * functions do not contain.
     */
    reviewed: Type.Optional(Type.String({ minLength: 10, maxLength: 4096 })),
    /**
     * Confirmation of the operator that the function is exposed although it executes its arguments
     * as code.
     */
    unsafe: Type.Optional(Type.Literal('i-understand')),
  },
  strict,
);
const compiledBody = compileSchema(CommandBody);

/** Named command. */
export interface CommandDefinition extends Readonly<Static<typeof CommandBody>> {
  /**
   * Name: parts of lower-case letters, digits and `-`, separated by dots. Example:
   * `mysql.create-user`.
   */
  readonly name: string;
}

/** Form of names of commands and plans. */
export const catalogNameForm: RegExp = /^[a-z][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)+$/;
const maxSources = 32;

/**
 * Parses a definition. An argument may be the name of a parameter instead of a source, as in
 * catalog files.
 * @throws BridgeError ERR_CATALOG
 */
export function parseCommandDefinition(name: string, value: unknown): CommandDefinition {
  if (!catalogNameForm.test(name) || name.length > 128) {
    throw catalogError(name, '', 'invalid name; use a name such as mysql.create-user');
  }
  const plain = plainNumbers(value);
  refuseForm(name, plain, { body: compiledBody, schema: CommandBody });
  const { arguments: given, ...rest } = compiledBody.Parse(plain);
  // Values of arguments and defaults of parameters keep floats without a fraction.
  const parameters = exactMember(value, 'parameters');
  const definition = { ...rest, ...(parameters === undefined ? {} : { parameters }), name };
  if (given === undefined) return definition;
  const sources = Object.entries(exactMember(value, 'arguments') ?? given).map(
    ([keyword, source]) => [keyword, parseArgumentSource(name, `arguments.${keyword}`, source, 0)],
  );
  return { ...definition, arguments: Object.fromEntries(sources) };
}

/**
 * Returns the map in a field of a definition, or `undefined` if the field is not a map. Returns it
 * as it was parsed: a float such as 1.0 does not become an integer.
 */
export function exactMember(
  definition: unknown,
  field: string,
): Readonly<Record<string, unknown>> | undefined {
  const member = isPlainMap(definition) ? definition[field] : undefined;
  return isPlainMap(member) ? member : undefined;
}

/**
 * Parses the part of a definition that says where an argument gets its value from.
 * @throws BridgeError ERR_CATALOG
 */
function parseArgumentSource(
  name: string,
  field: string,
  value: unknown,
  depth: number,
): ArgumentSource {
  if (typeof value === 'string') return { parameter: value };
  const [entry, ...more] = isPlainMap(value) && depth < maxSources ? Object.entries(value) : [];
  if (entry !== undefined && more.length === 0) {
    const [kind, content] = entry;
    if (kind === 'parameter' && typeof content === 'string') return { parameter: content };
    if (kind === 'value') return { value: content as JsonValue }; // from YAML or a program's JSON
    if (kind === 'map' && isPlainMap(content)) {
      const inner = Object.entries(content).map(([key, one]) => [
        key,
        parseArgumentSource(name, `${field}.${key}`, one, depth + 1),
      ]);
      return { map: Object.fromEntries(inner) };
    }
  }
  throw catalogError(
    name,
    field,
    'must be the name of a parameter, or a map {value: …} or {map: …}',
  );
}

/** Schema of a definition, and the check compiled from it. */
interface DefinitionForm {
  readonly body: { Check(value: unknown): boolean };
  /** Schema from which `body` was compiled. */
  readonly schema: TSchema;
}

/**
 * Validates the fields of a definition by their schema.
 * @throws CatalogError with all errors
 */
export function refuseForm(name: string, value: unknown, { body, schema }: DefinitionForm): void {
  if (body.Check(value)) return;
  throw new CatalogError(name, schemaMistakes(schema, value));
}

/**
 * Validates the name of a catalog entry, and its fields by their schema.
 * @param example - example of a valid name
 * @throws BridgeError ERR_CATALOG
 */
export function checkCatalogEntry(
  name: string,
  value: unknown,
  { example, ...form }: DefinitionForm & { readonly example: string },
): void {
  if (!catalogNameForm.test(name) || name.length > 128) {
    throw catalogError(name, '', `invalid name; use a name such as ${example}`);
  }
  refuseForm(name, value, form);
}

/**
 * Parses a command of a catalog file.
 * @throws BridgeError ERR_CATALOG
 */
export function parseCommandEntry(name: string, value: unknown): CommandDefinition {
  if (!isPlainMap(value)) return parseCommandDefinition(name, value);
  const concurrency = withOptionNames(value.concurrency, {
    names: new Map([['per_target', 'perTarget']]),
    refuse: (field, problem) => catalogError(name, `concurrency.${field}`, problem),
  });
  const given = withDefinitionOptionNames(name, value);
  return parseCommandDefinition(name, {
    ...given,
    ...(concurrency === undefined ? {} : { concurrency }),
  });
}

/**
 * Converts the fields of a command or plan from their names in files to their names in programs.
 * @throws BridgeError ERR_CATALOG
 */
export function withDefinitionOptionNames(
  name: string,
  value: Readonly<Record<string, unknown>>,
): object {
  const renamed = withOptionNames(value, {
    names: new Map([['timeout', 'timeoutSeconds']]),
    refuse: (field, problem) => catalogError(name, field, problem),
  });
  return Object(renamed);
}

/**
 * Names of fields in catalog files and in programs, and the error for a field that a file must not
 * contain.
 */
interface FieldNames {
  /** Maps the name of a field in catalog files to its name in programs. */
  readonly names: ReadonlyMap<string, string>;
  readonly refuse: (field: string, problem: string) => BridgeError;
}

/**
 * Renames the fields of a map from a catalog file to their names in programs.
 * @throws the error of `refuse` if the file contains a field under its name for programs, such as
 * `timeoutSeconds` instead of `timeout`
 */
export function withOptionNames(value: unknown, { names, refuse }: FieldNames): unknown {
  if (!isPlainMap(value)) return value;
  const inFile = new Map([...names].map(([field, option]) => [option, field]));
  const renamed = Object.entries(value).map(([key, it]) => {
    const field = inFile.get(key);
    if (field !== undefined) throw refuse(key, `unknown field in a file; use ${field}`);
    return [names.get(key) ?? key, it];
  });
  return Object.fromEntries(renamed);
}

/** Call of a function, as it is published to minions. */
export interface MinionCall {
  readonly fun: string;
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** Whether a value is a JSON object. */
export function isPlainMap(value: unknown): value is Readonly<Record<string, unknown>> {
  const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isMap && !(value instanceof Float);
}

/** Returns the error of an invalid definition. */
export function catalogError(name: string, field: string, problem: string): CatalogError {
  return new CatalogError(name, [{ path: field === '' ? [] : field.split('.'), problem }]);
}

/** Command whose parameters have a static type, derived from their schema. */
export interface TypedCommand<N extends string, P> extends CommandDefinition {
  readonly name: N;
  /** Exists for type inference only. */
  readonly '~params'?: P;
}

/**
 * Defines a command in a program. The static type of its parameters is derived from a TypeBox
 * schema.
 * @throws BridgeError ERR_CATALOG
 */
export function defineCommand<const N extends string, S extends TSchema>(
  name: N,
  definition: Omit<CommandDefinition, 'name' | 'parameters'> & { readonly parameters: S },
): TypedCommand<N, Static<S>> {
  const { parameters } = definition;
  // Convert the schema to JSON, which drops TypeBox's type information.
  const plain: unknown = JSON.parse(JSON.stringify(parameters));
  return parseCommandDefinition(name, { ...definition, parameters: plain }) as TypedCommand<
    N,
    Static<S>
  >;
}
