/** A named command as somebody writes it: in a file of the catalog, or in a program. */

import type { Static, TSchema } from 'typebox';
import Type from 'typebox';
import type { WireValue } from '#minion-protocol';
import { compileSchema, type JsonValue, schemaMistakes } from '#runtime';
import { type BridgeError, CatalogError } from '../errors.ts';

/** A JSON Schema; see docs/bridge.md for the keywords that are known. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** Where the value of a keyword argument comes from. */
export type ArgumentSource =
  /** The parameter of this name. */
  | { readonly parameter: string }
  /** Always this. */
  | { readonly value: JsonValue }
  /** A map, each value of which comes from somewhere. */
  | { readonly map: Readonly<Record<string, ArgumentSource>> };

/** A keyword of a Python function; what begins with `__` is Salt's own. */
export const keywordForm: RegExp = /^(?!__)[A-Za-z_][A-Za-z0-9_]*$/;

const strict = { additionalProperties: false };
const Words = Type.String({ minLength: 1, maxLength: 4096 });
/** A JSON Schema. */
const Schema = Type.Unsafe<JsonSchema>(Type.Object({}));
const Count = Type.Integer({ minimum: 1, maximum: 1_000_000 });

/** Limits of the runs of a command at a time. */
const Concurrency = Type.Object(
  {
    /** Runs on one minion. Default: no limit. */
    perTarget: Type.Optional(Count),
    /** Runs in all. Default: no limit. */
    total: Type.Optional(Count),
    /** Further runs that wait for their turn, as long as their time lasts. Default 0. */
    queue: Type.Optional(Type.Integer({ minimum: 0, maximum: 100_000 })),
  },
  strict,
);

/** Everything but the name; what stands behind a name in a file. */
const CommandBody = Type.Object(
  {
    /** Effect of the command, for callers. */
    description: Words,
    /** Version of the command. It grows when callers must change something. Default 1. */
    version: Type.Optional(Count),
    /** Function of the minion: `module.function`. Either this, `state` or `install`. */
    function: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)+$',
        description: 'a function such as test.ping',
      }),
    ),
    /** A state file of the master (`state.apply` with this name). */
    state: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9_][A-Za-z0-9_-]*(\\.[A-Za-z0-9_-]+)*$',
        description: 'the name of a state file such as mysql.user',
      }),
    ),
    /** Content of a machine, in groups that follow each other; docs/cfn-init.md has the fields. */
    install: Type.Optional(
      Type.Unsafe<readonly Readonly<Record<string, unknown>>[]>(
        Type.Array(Type.Object({}), { minItems: 1, maxItems: 64 }),
      ),
    ),
    /** JSON Schema of an object. Default: no parameters. */
    parameters: Type.Optional(Schema),
    /**
     * Sources of the values: by keyword of the function, or by key of the state's `pillar`. Default:
     * each parameter under its own name.
     */
    arguments: Type.Optional(
      Type.Unsafe<Readonly<Record<string, ArgumentSource>>>(
        Type.Record(Type.String(), Type.Unknown()),
      ),
    ),
    /** Parameters that no publication, log, event or job may hold; of `state` and `install` alone. */
    secret: Type.Optional(Type.Unsafe<readonly string[]>(Type.Array(Words))),
    /** A compound target: minions beyond it are refused, whoever calls. */
    within: Type.Optional(Words),
    /** Maximum duration of a run, its retries included. Default 60. In files `timeout`. */
    timeoutSeconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 86_400 })),
    /** Number of retries on minions that failed or did not answer. Default 0. */
    retries: Type.Optional(Type.Integer({ minimum: 0, maximum: 10 })),
    /** Whether running it twice does no more than once. Default false. */
    idempotent: Type.Optional(Type.Boolean()),
    concurrency: Type.Optional(Concurrency),
    /** JSON Schema of what a minion returns. Default: anything. */
    returns: Type.Optional(Schema),
    /** JSON Schema of a return that means success, beside a retcode of 0. Default: any. */
    success: Type.Optional(Schema),
    /** Replacement for callers of a deprecated command. */
    deprecated: Type.Optional(Words),
    /** Reason to expose a function that the shipped list does not have. */
    reviewed: Type.Optional(Type.String({ minLength: 10, maxLength: 4096 })),
    /** Confirms that the function may be exposed although it runs what it is handed. */
    unsafe: Type.Optional(Type.Literal('i-understand')),
  },
  strict,
);
const compiledBody = compileSchema(CommandBody);

/** A named command. */
export interface CommandDefinition extends Readonly<Static<typeof CommandBody>> {
  /** Parts of lower-case letters, digits and `-` with dots between them: `mysql.create-user`. */
  readonly name: string;
}

/** Names of commands and plans. */
export const catalogNameForm: RegExp = /^[a-z][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)+$/;
const maxSources = 32;

/**
 * Reads what stands behind a name. In files an argument may be written as the name of a parameter.
 * @throws BridgeError ERR_CATALOG
 */
export function parseCommandDefinition(name: string, value: unknown): CommandDefinition {
  if (!catalogNameForm.test(name) || name.length > 128) {
    throw catalogError(name, '', 'expected a name such as mysql.create-user');
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

/** @throws BridgeError ERR_CATALOG */
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
  throw catalogError(name, field, 'expected the name of a parameter, {value: …} or {map: …}');
}

/** What may stand behind a name. */
interface DefinitionForm {
  readonly body: { Check(value: unknown): boolean };
  /** Of the same. */
  readonly schema: TSchema;
}

/** @throws CatalogError with all that is wrong with the form of a definition */
export function refuseForm(name: string, value: unknown, { body, schema }: DefinitionForm): void {
  if (body.Check(value)) return;
  throw new CatalogError(name, schemaMistakes(schema, value));
}

/**
 * Looks at an entry of a file, by its schema.
 * @param example - of a name
 * @throws BridgeError ERR_CATALOG
 */
export function checkCatalogEntry(
  name: string,
  value: unknown,
  { example, ...form }: DefinitionForm & { readonly example: string },
): void {
  if (!catalogNameForm.test(name) || name.length > 128) {
    throw catalogError(name, '', `expected a name such as ${example}`);
  }
  refuseForm(name, value, form);
}

/** Reads a command of a catalog file. @throws BridgeError ERR_CATALOG */
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

/** A command or a plan of a file, with the options of programs. @throws BridgeError ERR_CATALOG */
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

/** How the fields of a file become the options of programs. */
interface FieldNames {
  /** Fields of files, with the options of programs that they mean. */
  readonly names: ReadonlyMap<string, string>;
  readonly refuse: (field: string, problem: string) => BridgeError;
}

/**
 * The fields of a map in a file, as the options of programs.
 * @throws what `refuse` makes, for names that only programs have
 */
export function withOptionNames(value: unknown, { names, refuse }: FieldNames): unknown {
  if (!isPlainMap(value)) return value;
  const inFile = new Map([...names].map(([field, option]) => [option, field]));
  const renamed = Object.entries(value).map(([key, it]) => {
    const field = inFile.get(key);
    if (field !== undefined) throw refuse(key, `in files this is ${field}`);
    return [names.get(key) ?? key, it];
  });
  return Object.fromEntries(renamed);
}

/** What a minion is asked for. */
export interface MinionCall {
  readonly fun: string;
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** Whether it is an object of JSON. */
export function isPlainMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Why a definition cannot be used. */
export function catalogError(name: string, field: string, problem: string): CatalogError {
  return new CatalogError(name, [{ path: field === '' ? [] : field.split('.'), problem }]);
}

/** A command whose parameters are typed by their schema. */
export interface TypedCommand<N extends string, P> extends CommandDefinition {
  readonly name: N;
  /** Of types alone. */
  readonly '~params'?: P;
}

/**
 * A command in a program, typed by its TypeBox schema.
 * @throws BridgeError ERR_CATALOG
 */
export function defineCommand<const N extends string, S extends TSchema>(
  name: N,
  definition: Omit<CommandDefinition, 'name' | 'parameters'> & { readonly parameters: S },
): TypedCommand<N, Static<S>> {
  const { parameters } = definition;
  // The schema as JSON: what TypeBox knows of it besides is of types alone.
  const plain: unknown = JSON.parse(JSON.stringify(parameters));
  return parseCommandDefinition(name, { ...definition, parameters: plain }) as TypedCommand<
    N,
    Static<S>
  >;
}
