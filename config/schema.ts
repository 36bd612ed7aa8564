/**
 * Schemas of options. TypeBox schemas get additional keywords, which describe the lenient spellings
 * that Salt accepts, and how mistakes are reported.
 */

import { type Static, type TProperties, type TSchema, type TUnsafe, Type } from 'typebox';
import { Check } from 'typebox/schema';
import { nearestName } from '#runtime';
import {
  ConfigError,
  type OptionOrigin,
  proposeName,
  typeError,
  unknownOption,
} from './config-error.ts';
import {
  entriesOf,
  isSettings,
  itemsOf,
  type Setting,
  sectionEntries,
  settingsOf,
} from './settings.ts';

/** Keywords of our schemas that are not part of JSON Schema. */
export type Keywords = {
  /** Unit of a numeric option, for example `seconds`. */
  readonly unit?: string;
  /** Description of the expected value, for the operator. */
  readonly expected?: string;
  /** Sentence that describes the option in the documentation. */
  readonly description?: string;
  /** Value of an option that is not set. */
  readonly default?: unknown;
  /** Name of a member in files. Default: the name of the member in snake case. */
  readonly fileName?: string;
  /**
   * Converts a spelling that Salt accepts to a value of the schema. Returns `undefined` to reject
   * the value.
   */
  readonly accept?: (value: unknown) => unknown;
  /**
   * Returns the mistakes inside a rejected value. Returns none if the value is wrong as a whole.
   */
  readonly explain?: (setting: Setting) => readonly ConfigError[];
  /** Returns the contradictions between members of a section. */
  readonly check?: (given: GivenSection) => readonly ConfigError[];
  /** Names of members that are accepted in a section and ignored. */
  readonly dropped?: ReadonlySet<string>;
  /** Whether a name in a map may have no value, as in `base:`. */
  readonly takesNull?: boolean;
  /** Whether a single item is accepted as a list of one. */
  readonly takesOne?: boolean;
  /** Words that are valid values. They are used to detect misspelt words. */
  readonly words?: readonly string[];
};

/** Section of a configuration file, with its valid members only. */
export interface GivenSection {
  readonly origin: OptionOrigin;
  /** Members of the section that are valid, by name. */
  readonly values: Readonly<Record<string, unknown>>;
  /**
   * Names of the options that the user has set in the section, as programs write them. Includes
   * options with invalid values. For a misspelt name, includes the most similar option.
   */
  readonly meant: ReadonlySet<string>;
}

/** Value of a setting, or all mistakes in it. */
export type ReadResult<T> =
  | { readonly value: T; readonly problems?: undefined }
  | { readonly problems: readonly ConfigError[] };

/** Keywords of a schema that {@link readSetting} evaluates. */
export interface Shape extends Keywords {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, TSchema>>;
  readonly required?: readonly string[];
  readonly items?: TSchema;
  /** Schema of the values of a map. */
  readonly each?: TSchema;
  /**
   * JSON Schema of the value as written in a configuration file. Set only if the value has its own
   * parser; see {@link custom}.
   */
  readonly inFiles?: Shape;
  readonly anyOf?: readonly TSchema[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
}

/**
 * Returns the same schema with the type {@link Shape}, through which its keywords are accessible.
 */
export function shapeOf(schema: TSchema): Shape {
  return schema;
}

export const megabytes100 = 100_000_000;
export const mebibyte = 1_048_576;
/** Maximum of numeric options that need no smaller limit. */
export const many = 1_000_000_000;

const oneLine = { minLength: 1, pattern: '^[^\\u0000\\r\\n]*$' };

/** Returns the schema of a boolean. */
export function flag(keywords: Keywords = {}): TUnsafe<boolean> {
  return Type.Unsafe(Type.Boolean({ expected: 'true or false', ...keywords }));
}

/** Returns the schema of text: one line with at least one character. */
export function text(keywords: Keywords = {}): TUnsafe<string> {
  return Type.Unsafe(Type.String({ ...oneLine, expected: 'text', ...keywords }));
}

/** Returns the schema of text that may also be written as a number. */
export function numericText(keywords: Keywords = {}): TUnsafe<string> {
  const accept = (value: unknown): unknown => (typeof value === 'number' ? String(value) : value);
  return text({ accept, ...keywords });
}

/** Returns a schema that accepts a text if `isRight` returns true for it. */
export function textWhere(
  isRight: (value: string) => boolean,
  expected: string,
  keywords: Keywords = {},
): TUnsafe<string> {
  const accept = (value: unknown): unknown => {
    return typeof value === 'string' && isRight(value) ? value : undefined;
  };
  return text({ accept, expected, ...keywords });
}

/** Returns the schema of text that may be empty, or written as a number. */
export function anyText(keywords: Keywords = {}): TUnsafe<string> {
  const accept = (value: unknown): unknown => (typeof value === 'number' ? String(value) : value);
  const schema = Type.String({ pattern: oneLine.pattern, accept, expected: 'text', ...keywords });
  return Type.Unsafe(schema);
}

/**
 * Returns the schema of a secret in plain text. Salt's `sdb://` addresses are rejected, because
 * they refer to Python modules.
 */
export function passphrase(keywords: Keywords = {}): TUnsafe<string> {
  const accept = (value: unknown): unknown =>
    typeof value === 'string' && value.startsWith('sdb://') ? undefined : value;
  return text({ accept, expected: 'the passphrase itself (sdb:// is not supported)', ...keywords });
}

/** Returns the schema of an absolute path. */
export function absolutePath(keywords: Keywords = {}): TUnsafe<string> {
  return textWhere((value) => value.startsWith('/'), 'an absolute path', keywords);
}

/** Returns the schema of a whole number. */
export function integer(
  minimum: number,
  maximum: number,
  keywords: Keywords = {},
): TUnsafe<number> {
  const expected = `a whole number from ${minimum} to ${maximum}`;
  return Type.Unsafe(Type.Integer({ minimum, maximum, expected, ...keywords }));
}

/** Returns the schema of a number, with or without a fraction. */
export function number(minimum: number, maximum: number, keywords: Keywords = {}): TUnsafe<number> {
  const expected = `a number from ${minimum} to ${maximum}`;
  return Type.Unsafe(Type.Number({ minimum, maximum, expected, ...keywords }));
}

/** Returns the schema of a number of bytes. */
export function bytes(minimum: number, maximum: number, keywords: Keywords = {}): TUnsafe<number> {
  return integer(minimum, maximum, { unit: 'bytes', ...keywords });
}

/** Returns the schema of a duration, with or without a fraction. */
export function duration(unit: 'seconds' | 'minutes' | 'hours'): TUnsafe<number> {
  return number(0, 1e9, { unit, expected: `a number of ${unit}, 0 or more` });
}

/** Returns the schema of one of a few words, in upper or lower case. */
export function oneOf<const T extends string>(
  words: readonly T[],
  keywords: Keywords = {},
): TUnsafe<T> {
  const accept = (value: unknown): unknown =>
    words.find((word) => typeof value === 'string' && word.toLowerCase() === value.toLowerCase());
  const expected = `one of ${words.join(', ')}`;
  return Type.Unsafe<T>(Type.Enum([...words], { accept, words, expected, ...keywords }));
}

/**
 * Returns the schema of a list. By default, a single item is accepted too, as in Salt, and read as
 * a list of one item.
 */
export function list<S extends TSchema>(
  item: S,
  keywords: Keywords & { readonly minItems?: number; readonly maxItems?: number } = {},
): TUnsafe<readonly Static<S>[]> {
  const expected = `a list, each ${expectedBy(item)}`;
  return Type.Unsafe(Type.Array(item, { takesOne: true, expected, ...keywords }));
}

/** Returns the schema of a list of texts. */
export function textList(keywords: Keywords = {}): TUnsafe<readonly string[]> {
  return list(numericText(), { expected: 'a text or a list of texts', ...keywords });
}

/** Returns the schema of a value that may be null. */
export function orNull<S extends TSchema>(schema: S): TUnsafe<Static<S> | null> {
  return custom<Static<S> | null>(
    {
      expected: expectedBy(schema),
      default: null,
      accept: (value) => (value === null ? null : parseValue(schema, value)),
      explain: (setting) => refusals(schema, setting),
    },
    Type.Union([schema, Type.Null()]),
  );
}

/** Read-only values of the members of a section. */
type Members<P extends TProperties> = Readonly<Static<ReturnType<typeof Type.Object<P>>>>;

/**
 * Returns the schema of a map with named members. A member with a default may be left out, and then
 * has its default. All other members must be set, unless they are optional.
 */
export function section<P extends TProperties>(
  properties: P,
  keywords: Keywords = {},
): TUnsafe<Members<P>> {
  const expected = `a map with any of ${namesOf({ properties }).join(', ')}`;
  return Type.Unsafe<Members<P>>(
    Type.Object(properties, { additionalProperties: false, expected, ...keywords }),
  );
}

/** Returns the schema of a map of names to values of one kind. */
export function mapOf<S extends TSchema>(
  item: S,
  keywords: Keywords & { readonly expected: string },
): TUnsafe<Readonly<Record<string, Static<S>>>> {
  return Type.Unsafe<Readonly<Record<string, Static<S>>>>(
    Type.Record(Type.String(), item, { each: item, ...keywords }),
  );
}

/**
 * Returns the schema of a value that has its own parser.
 * @param inFiles - JSON Schema of the value as written in a configuration file
 */
export function custom<T>(
  keywords: Keywords & { readonly expected: string },
  inFiles: Shape = {},
): TUnsafe<T> {
  return Type.Unsafe<T>(Type.Unknown({ inFiles, ...keywords }));
}

/** Declares an optional member. */
export const optional = Type.Optional;

/** Schema of a protocol version, or `auto`. */
export const authVersion: TUnsafe<'auto' | 0 | 1 | 2 | 3> = Type.Unsafe(
  Type.Enum(['auto', 0, 1, 2, 3], { expected: 'auto, 0, 1, 2 or 3' }),
);

/** Returns the schema of request headers. */
export function headers(keywords: Keywords = {}): TUnsafe<Readonly<Record<string, string>>> {
  const accept = (value: unknown): unknown => {
    const pairs = entriesOf(value);
    const texts = pairs?.filter((pair): pair is [string, string] => typeof pair[1] === 'string');
    if (texts === undefined || texts.length !== pairs?.length) return undefined;
    try {
      new Headers(texts);
      return Object.fromEntries(texts);
    } catch {
      return undefined;
    }
  };
  return custom(
    { accept, expected: 'a map of names to texts', ...keywords },
    Type.Record(Type.String(), Type.String()),
  );
}

/**
 * Returns the values that a section has if none of its members is set.
 * @throws TypeError if a member has no default
 */
export function defaultsOf<T>(schema: TUnsafe<T>): T {
  const read = readSetting(schema, { value: {}, origin: nowhere });
  if (read.problems === undefined) return read.value;
  throw new TypeError('internal error: an option of a configuration section has no default value');
}

/** Returns the description of the values that a schema accepts, for error messages. */
export function expectedBy(schema: TSchema): string {
  return shapeOf(schema).expected ?? 'another value';
}

/**
 * Returns the name that a member of a section has in configuration files. By default, this is its
 * name in snake case.
 */
export function fileNameOf(member: string, schema: TSchema): string {
  const { fileName } = shapeOf(schema);
  return fileName ?? member.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Returns the names that the members of a section have in configuration files. */
export function namesOf(schema: TSchema): readonly string[] {
  const { properties = {} } = shapeOf(schema);
  return Object.entries(properties).map(([member, its]) => fileNameOf(member, its));
}

const nowhere: OptionOrigin = { file: 'options', line: 0, key: '' };

/**
 * Returns the value that a schema reads from the given value, or `undefined` if the schema rejects
 * that value.
 */
export function parseValue<S extends TSchema>(schema: S, value: unknown): Static<S> | undefined {
  const read = readSetting(schema, { value, origin: nowhere });
  return read.problems === undefined ? read.value : undefined;
}

/** Returns all mistakes in a setting. Returns none if the schema accepts it. */
export function refusals(schema: TSchema, setting: Setting): readonly ConfigError[] {
  return readSetting(schema, setting).problems ?? [];
}

/** Reads a setting with a schema. Returns its value, or all mistakes in it. */
export function readSetting<S extends TSchema>(schema: S, setting: Setting): ReadResult<Static<S>> {
  const read = readAny(schema, setting);
  if (read.problems === undefined && Check(schema, read.value)) return { value: read.value };
  const problems = read.problems ?? [];
  return { problems: problems.length > 0 ? problems : [refuse(schema, setting)] };
}

/**
 * Reads a setting, but does not check its value against constraints such as a pattern or a maximum.
 * @returns the value, or the problems in it
 */
function readAny(schema: TSchema, setting: Setting): ReadResult<unknown> {
  const { accept, explain, properties, items, each } = shapeOf(schema);
  if (accept !== undefined) {
    const value = accept(setting.value);
    return value === undefined ? { problems: explain?.(setting) ?? [] } : { value };
  }
  if (items !== undefined) return readList(schema, items, setting);
  if (each !== undefined) return readMap(schema, each, setting);
  if (properties !== undefined) return readSection(schema, properties, setting);
  return { value: setting.value };
}

function readList(schema: TSchema, item: TSchema, setting: Setting): ReadResult<unknown> {
  const { takesOne = false } = shapeOf(schema);
  const { value } = setting;
  if (Array.isArray(value)) {
    const read = itemsOf(setting).map((it) => readSetting(item, it));
    const problems = read.flatMap((it) => it.problems ?? []);
    if (problems.length > 0) return { problems };
    return { value: read.flatMap((it) => (it.problems === undefined ? [it.value] : [])) };
  }
  if (!takesOne) return { problems: [] };
  if (value === null) return { value: [] };
  const read = readSetting(item, setting);
  return read.problems === undefined ? { value: [read.value] } : { problems: [] };
}

function readMap(schema: TSchema, each: TSchema, setting: Setting): ReadResult<unknown> {
  const { takesNull = false } = shapeOf(schema);
  if (sectionEntries(setting.value) === undefined) return { problems: [] };
  const entries = takesNull && isSettings(setting.value) ? [...setting.value] : settingsOf(setting);
  const read = entries.map(([name, it]) => [name, readSetting(each, it)] as const);
  const problems = read.flatMap(([, it]) => it.problems ?? []);
  if (problems.length > 0) return { problems };
  return {
    value: Object.fromEntries(
      read.flatMap(([name, it]) => (it.problems === undefined ? [[name, it.value]] : [])),
    ),
  };
}

function readSection(
  schema: TSchema,
  properties: Readonly<Record<string, TSchema>>,
  setting: Setting,
): ReadResult<unknown> {
  if (sectionEntries(setting.value) === undefined) return { problems: [] };
  const { required = [], check, dropped } = shapeOf(schema);
  const isInFile = isSettings(setting.value);
  const members = new Map(
    Object.entries(properties).map(([member, its]) => [
      isInFile ? fileNameOf(member, its) : member,
      { member, schema: its },
    ]),
  );
  const known = [...members.keys()];
  const values: Record<string, unknown> = {};
  const meant = new Set<string>();
  const problems: ConfigError[] = [];
  for (const [name, inner] of settingsOf(setting)) {
    if (isInFile && dropped?.has(name)) continue;
    const row = members.get(name);
    if (row === undefined) {
      problems.push(unknownOption(inner.origin, known, 'ERR_OPTION_TYPE'));
      const nearest = members.get(nearestName(name, known) ?? '');
      if (nearest !== undefined) meant.add(nearest.member);
      continue;
    }
    // A program may pass null to omit a member that has a default.
    if (inner.value === null && shapeOf(row.schema).default !== undefined) continue;
    meant.add(row.member);
    const read = readSetting(row.schema, inner);
    if (read.problems === undefined) values[row.member] = read.value;
    else problems.push(...read.problems);
  }
  for (const [name, { member, schema: its }] of members) {
    if (meant.has(member)) continue;
    const { default: value } = shapeOf(its);
    if (value !== undefined) values[member] = value;
    else if (required.includes(member)) {
      problems.push(new ConfigError('ERR_OPTION_TYPE', setting.origin, `${name} must be set`));
    }
  }
  problems.push(...(check?.({ origin: setting.origin, values, meant }) ?? []));
  return problems.length > 0 ? { problems } : { value: Object.freeze(values) };
}

/**
 * Returns the error for a value that the schema rejects. The error states the accepted values, and
 * proposes the nearest word for a misspelt one.
 */
function refuse(schema: TSchema, { origin, value }: Setting): ConfigError {
  const { type, words } = shapeOf(schema);
  const expected = expectedBy(schema);
  if (type === 'integer' || type === 'number') {
    const bound = brokenBound(schema, value);
    if (bound !== undefined) {
      const problem = `${value} is ${bound}, expected ${expected}`;
      return new ConfigError('ERR_OPTION_TYPE', origin, problem);
    }
  }
  const proposal =
    words !== undefined && typeof value === 'string' ? proposeName(value, words) : undefined;
  return typeError(origin, value, proposal === undefined ? expected : `${expected}; ${proposal}`);
}

/**
 * Returns a description of the bound that a number violates. The description may contain the
 * number, because numbers are not secret.
 */
function brokenBound(schema: TSchema, value: unknown): string | undefined {
  if (typeof value !== 'number' || Number.isNaN(value)) return undefined;
  const { minimum = -Infinity, maximum = Infinity } = shapeOf(schema);
  if (value > maximum) return `over ${maximum}`;
  return value < minimum ? `under ${minimum}` : 'not a whole number';
}
