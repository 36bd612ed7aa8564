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

/** How many runs of a command there may be at a time. */
export interface ConcurrencyLimit {
  /** On one minion. Default: no limit. */
  readonly perTarget?: number;
  /** In all. Default: no limit. */
  readonly total?: number;
  /** How many more wait for their turn, as long as their time lasts. Default 0. */
  readonly queue?: number;
}

/** A named command. */
export interface CommandDefinition {
  /** Parts of lower-case letters, digits and `-` with dots between them: `mysql.create-user`. */
  readonly name: string;
  /** What it does, for whoever calls it. */
  readonly description: string;
  /** Of the command; it grows when callers must change something. Default 1. */
  readonly version?: number;
  /** The minion's function: `module.function`. Either this, `state` or `install`. */
  readonly function?: string;
  /** A state file of the master's (`state.apply` with this name). */
  readonly state?: string;
  /** What a machine is to have, in groups that follow each other; docs/cfn-init.md has the fields. */
  readonly install?: readonly Readonly<Record<string, unknown>>[];
  /** JSON Schema of an object. Default: no parameters. */
  readonly parameters?: JsonSchema;
  /**
   * By keyword of the function; of a state, by key of its `pillar`. Default: each parameter under
   * its own name.
   */
  readonly arguments?: Readonly<Record<string, ArgumentSource>>;
  /** Parameters that no publication, log, event or job may hold; of `state` and `install` alone. */
  readonly secret?: readonly string[];
  /** A compound target: minions beyond it are refused, whoever asks. */
  readonly within?: string;
  /** How long a run may take, its retries included. Default 60. In files `timeout`. */
  readonly timeoutSeconds?: number;
  /** How often it is tried again on minions that failed or did not answer. Default 0. */
  readonly retries?: number;
  /** Whether running it twice does no more than once. Default false. */
  readonly idempotent?: boolean;
  readonly concurrency?: ConcurrencyLimit;
  /** JSON Schema of what a minion returns. Default: anything. */
  readonly returns?: JsonSchema;
  /** JSON Schema of a return that means success, beside a retcode of 0. Default: any. */
  readonly success?: JsonSchema;
  /** What to use instead. */
  readonly deprecated?: string;
  /** Why the function may be exposed, where the shipped list does not have it. */
  readonly reviewed?: string;
  /** That it may be exposed although it runs what it is handed. */
  readonly unsafe?: 'i-understand';
}

/** A keyword of a Python function; what begins with `__` is Salt's own. */
export const keywordForm: RegExp = /^(?!__)[A-Za-z_][A-Za-z0-9_]*$/;

const strict = { additionalProperties: false };
const Words = Type.String({ minLength: 1, maxLength: 4096 });
const Schema = Type.Object({});
const Count = Type.Integer({ minimum: 1, maximum: 1_000_000 });

/** Everything but the name; what stands behind a name in a file. */
const CommandBody = Type.Object(
  {
    description: Words,
    version: Type.Optional(Count),
    function: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)+$',
        description: 'a function such as test.ping',
      }),
    ),
    state: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9_][A-Za-z0-9_-]*(\\.[A-Za-z0-9_-]+)*$',
        description: 'the name of a state file such as mysql.user',
      }),
    ),
    install: Type.Optional(Type.Array(Type.Object({}), { minItems: 1, maxItems: 64 })),
    parameters: Type.Optional(Schema),
    arguments: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    secret: Type.Optional(Type.Array(Words)),
    within: Type.Optional(Words),
    timeoutSeconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 86_400 })),
    retries: Type.Optional(Type.Integer({ minimum: 0, maximum: 10 })),
    idempotent: Type.Optional(Type.Boolean()),
    concurrency: Type.Optional(
      Type.Object(
        {
          perTarget: Type.Optional(Count),
          total: Type.Optional(Count),
          queue: Type.Optional(Type.Integer({ minimum: 0, maximum: 100_000 })),
        },
        strict,
      ),
    ),
    returns: Type.Optional(Schema),
    success: Type.Optional(Schema),
    deprecated: Type.Optional(Words),
    reviewed: Type.Optional(Type.String({ minLength: 10, maxLength: 4096 })),
    unsafe: Type.Optional(Type.Literal('i-understand')),
  },
  strict,
);
const compiledBody = compileSchema(CommandBody);

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
  const { arguments: given, ...rest }: Static<typeof CommandBody> = compiledBody.Parse(value);
  if (given === undefined) return { ...rest, name } as CommandDefinition; // optional, never undefined
  const sources = Object.entries(given).map(([keyword, source]) => [
    keyword,
    parseArgumentSource(name, `arguments.${keyword}`, source, 0),
  ]);
  return { ...rest, name, arguments: Object.fromEntries(sources) } as CommandDefinition; // as above
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
