/** Definition of a named command, in a catalog file or in a program. */

import type { Static, TSchema } from 'typebox';
import Type from 'typebox';
import type { WireValue } from '#minion-protocol';
import { compileSchema, type JsonValue, schemaMistakes } from '#runtime';
import { type BridgeError, CatalogError } from '../errors.ts';

/** JSON Schema; docs/policy.md lists the supported keywords. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** Source of the value of a keyword argument. */
export type ArgumentSource =
  /** Value of the parameter with this name. */
  | { readonly parameter: string }
  /** Constant value. */
  | { readonly value: JsonValue }
  /** Map whose values have sources. */
  | { readonly map: Readonly<Record<string, ArgumentSource>> };

/** Form of keywords of Python functions. Names with the prefix `__` are reserved by Salt. */
export const keywordForm: RegExp = /^(?!__)[A-Za-z_][A-Za-z0-9_]*$/;

const strict = { additionalProperties: false };
const Words = Type.String({ minLength: 1, maxLength: 4096 });
/** JSON Schema. */
const Schema = Type.Unsafe<JsonSchema>(Type.Object({}));
const Count = Type.Integer({ minimum: 1, maximum: 1_000_000 });

/** Limits on concurrent runs of a command. */
const Concurrency = Type.Object(
  {
    /** Maximum number of runs on one minion. Default: unlimited. */
    perTarget: Type.Optional(Count),
    /** Maximum number of runs in total. Default: unlimited. */
    total: Type.Optional(Count),
    /** Maximum number of further runs that wait for their turn until their deadline. Default: 0. */
    queue: Type.Optional(Type.Integer({ minimum: 0, maximum: 100_000 })),
  },
  strict,
);

/** Definition without its name, as in a file. */
const CommandBody = Type.Object(
  {
    /** Effect of the command, for callers. */
    description: Words,
    /** Version of the command. Increase it when callers must change. Default: 1. */
    version: Type.Optional(Count),
    /**
     * Function of the minion: `module.function`. Set exactly one of this, `state` and `install`.
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
    /** Desired content of a machine, in ordered groups; docs/install.md describes the fields. */
    install: Type.Optional(
      Type.Unsafe<readonly Readonly<Record<string, unknown>>[]>(
        Type.Array(Type.Object({}), { minItems: 1, maxItems: 64 }),
      ),
    ),
    /** JSON Schema of the parameters, of type object. Default: no parameters. */
    parameters: Type.Optional(Schema),
    /**
     * Sources of the values, by keyword of the function or by key of the state's `pillar`.
     * Default: each parameter under its own name.
     */
    arguments: Type.Optional(
      Type.Unsafe<Readonly<Record<string, ArgumentSource>>>(
        Type.Record(Type.String(), Type.Unknown()),
      ),
    ),
    /**
     * Parameters that must not appear in publications, logs, events and jobs. Supported with
     * `state` and `install` only.
     */
    secret: Type.Optional(Type.Unsafe<readonly string[]>(Type.Array(Words))),
    /** Compound target. Minions outside of it are rejected for every caller. */
    within: Type.Optional(Words),
    /** Maximum duration of a run with its retries, in seconds. Default: 60. In files: `timeout`. */
    timeoutSeconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 86_400 })),
    /** Number of retries on minions that failed or did not respond. Default: 0. */
    retries: Type.Optional(Type.Integer({ minimum: 0, maximum: 10 })),
    /** Whether running the command twice has the same effect as running it once. Default: false. */
    idempotent: Type.Optional(Type.Boolean()),
    concurrency: Type.Optional(Concurrency),
    /** JSON Schema of a minion's return. Default: anything. */
    returns: Type.Optional(Schema),
    /** JSON Schema of a successful return, in addition to a retcode of 0. Default: anything. */
    success: Type.Optional(Schema),
    /** Replacement for callers of a deprecated command. */
    deprecated: Type.Optional(Words),
    /** Reason why a function is exposed that the shipped list does not have. */
    reviewed: Type.Optional(Type.String({ minLength: 10, maxLength: 4096 })),
    /** Confirms that the function may be exposed although it runs its arguments as code. */
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
 * Parses a definition. An argument may also be the name of a parameter.
 * @throws BridgeError ERR_CATALOG
 */
export function parseCommandDefinition(name: string, value: unknown): CommandDefinition {
  if (!catalogNameForm.test(name) || name.length > 128) {
    throw catalogError(name, '', 'invalid name; use a name such as mysql.create-user');
  }
  refuseForm(name, value, { body: compiledBody, schema: CommandBody });
  const { arguments: given, ...rest } = compiledBody.Parse(value);
  if (given === undefined) return { ...rest, name };
  const sources = Object.entries(given).map(([keyword, source]) => [
    keyword,
    parseArgumentSource(name, `arguments.${keyword}`, source, 0),
  ]);
  return { ...rest, name, arguments: Object.fromEntries(sources) };
}

/**
 * Parses the source of an argument.
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
  throw catalogError(name, field, 'must be the name of a parameter, {value: …} or {map: …}');
}

/** Compiled form of a definition. */
interface DefinitionForm {
  readonly body: { Check(value: unknown): boolean };
  /** Schema from which `body` was compiled. */
  readonly schema: TSchema;
}

/**
 * Checks the form of a definition.
 * @throws CatalogError with all errors
 */
export function refuseForm(name: string, value: unknown, { body, schema }: DefinitionForm): void {
  if (body.Check(value)) return;
  throw new CatalogError(name, schemaMistakes(schema, value));
}

/**
 * Checks a catalog entry by its schema.
 * @param example - example of a name
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
 * Converts the fields of a command or a plan in a file to the options of programs.
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

/** Mapping from fields of a file to options of programs. */
interface FieldNames {
  /** Options of programs, by field of files. */
  readonly names: ReadonlyMap<string, string>;
  readonly refuse: (field: string, problem: string) => BridgeError;
}

/**
 * Returns a map of a file with the option names of programs.
 * @throws the error of `refuse` for option names that only programs have
 */
export function withOptionNames(value: unknown, { names, refuse }: FieldNames): unknown {
  if (!isPlainMap(value)) return value;
  const inFile = new Map([...names].map(([field, option]) => [option, field]));
  const renamed = Object.entries(value).map(([key, it]) => {
    const field = inFile.get(key);
    if (field !== undefined) throw refuse(key, `unknown in files; use ${field}`);
    return [names.get(key) ?? key, it];
  });
  return Object.fromEntries(renamed);
}

/** Call for minions. */
export interface MinionCall {
  readonly fun: string;
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** Whether a value is a JSON object. */
export function isPlainMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the error of an invalid definition. */
export function catalogError(name: string, field: string, problem: string): CatalogError {
  return new CatalogError(name, [{ path: field === '' ? [] : field.split('.'), problem }]);
}

/** Command whose parameters are typed by their schema. */
export interface TypedCommand<N extends string, P> extends CommandDefinition {
  readonly name: N;
  /** Exists for type inference only. */
  readonly '~params'?: P;
}

/**
 * Defines a command in a program, typed by its TypeBox schema.
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
