import { isDeepStrictEqual } from 'node:util';
import type { Static, TSchema } from 'typebox';
import { Type } from '#typebox';
import { Value } from '#typebox/value';
import { SaltbridgeError } from '../../runtime/index.ts';
import type { ErrorEntry } from '../api/index.ts';

/** How the value of an option is checked. */
export interface OptionKind<T> {
  /** What is expected, in words for the operator. */
  readonly expected: string;
  /** Whether Salt joins it to `root_dir`. */
  readonly isPath: boolean;
  /** The value in its final form; `undefined` when it is not one of this kind. */
  parse(value: unknown): T | undefined;
}

const oneLine = Type.String({ minLength: 1, pattern: '^[^\\u0000\\r\\n]*$' });

/** True or false. */
export const flag: OptionKind<boolean> = kind(Type.Boolean(), 'true or false');

/** Text of one character or more, on one line. */
export const text: OptionKind<string> = kind(oneLine, 'text');

/** Text; a number becomes its decimal form. */
export const numericText: OptionKind<string> = {
  ...text,
  parse: (value) => text.parse(typeof value === 'number' ? String(value) : value),
};

/** A secret in plain text: Salt's `sdb://` addresses lead to modules of Salt's. */
export const passphrase: OptionKind<string> = {
  ...text,
  expected: 'a passphrase itself (sdb:// is not served)',
  parse: (value) => {
    const secret = text.parse(value);
    return secret?.startsWith('sdb://') ? undefined : secret;
  },
};

/** A path below `root_dir`. */
export const filePath: OptionKind<string> = { ...text, expected: 'a path', isPath: true };

/** A path below `root_dir`, or an address (`scheme://…`). */
export const pathOrUrl: OptionKind<string> = { ...filePath, expected: 'a path or an address' };

/** A protocol version, or `auto`. */
export const authVersion: OptionKind<'auto' | 0 | 1 | 2 | 3> = kind(
  Type.Union([
    Type.Literal('auto'),
    Type.Literal(0),
    Type.Literal(1),
    Type.Literal(2),
    Type.Literal(3),
  ]),
  'auto, 0, 1, 2 or 3',
);

/** A list of texts; a single one, as Salt takes it too, is a list of one. */
export const textList: OptionKind<readonly string[]> = {
  expected: 'a text or a list of texts',
  isPath: false,
  parse: (value) => {
    if (value === null) return [];
    const list: unknown[] = Array.isArray(value) ? value : [value];
    const texts = list.map((item) => numericText.parse(item));
    return texts.every((item) => item !== undefined) ? texts : undefined;
  },
};

/** A whole number. */
export function integer(minimum: number, maximum: number): OptionKind<number> {
  const schema = Type.Integer({ minimum, maximum });
  return kind(schema, `a whole number from ${minimum} to ${maximum}`);
}

/** A number, with or without fraction. */
export function number(minimum: number, maximum: number): OptionKind<number> {
  return kind(Type.Number({ minimum, maximum }), `a number from ${minimum} to ${maximum}`);
}

/** A length of time, with or without fraction. */
export function duration(unit: 'seconds' | 'minutes' | 'hours'): OptionKind<number> {
  return kind(Type.Number({ minimum: 0, maximum: 1e9 }), `a number of ${unit}, 0 or more`);
}

/** One of a few words, in upper or lower case. */
export function oneOf<const T extends string>(words: readonly T[], note = ''): OptionKind<T> {
  const parse = (value: unknown): T | undefined =>
    words.find((word) => typeof value === 'string' && word.toLowerCase() === value.toLowerCase());
  return { expected: `one of ${words.join(', ')}${note}`, isPath: false, parse };
}

function kind<S extends TSchema>(schema: S, expected: string): OptionKind<Static<S>> {
  const parse = (value: unknown): Static<S> | undefined =>
    Value.Check(schema, value) ? value : undefined;
  return { expected, isPath: false, parse };
}

/** A value as it was found: text, a number, …, a list, or for a map {@link Settings}. */
export interface Setting {
  readonly value: unknown;
  readonly origin: OptionOrigin;
}

/** What a file says, by key. A `Map`, so that no key can reach an object's prototype. */
export type Settings = Map<string, Setting>;

/** The options that were given, each map by the names of files. */
export interface GivenOptions {
  readonly salt: Settings;
  /** `saltbridge:` */
  readonly own: Settings;
  /** `saltbridge:limits:` */
  readonly limits: Settings;
  /** `saltbridge:acl:` */
  readonly acl: Settings;
}

/** Whether a setting is a map. */
export function isSettings(value: unknown): value is Settings {
  return value instanceof Map;
}

/**
 * Puts the files of one include over each other: maps are merged, lists are appended without
 * doubles, all else is replaced. [salt.utils.dictupdate.update with merge_lists]
 */
export function mergeSettings(into: Settings, from: Settings): void {
  for (const [key, setting] of from) {
    const present = into.get(key)?.value;
    if (isSettings(present) && isSettings(setting.value)) {
      mergeSettings(present, setting.value);
    } else if (Array.isArray(present) && Array.isArray(setting.value)) {
      into.set(key, { ...setting, value: appendNew(present, setting.value) });
    } else {
      into.set(key, setting);
    }
  }
}

/**
 * Puts what a file includes over the file itself: whole options are replaced, as Salt does
 * [salt.config.master_config]. Our own section is merged, because it is one option only in form.
 */
export function overrideSettings(into: Settings, from: Settings): void {
  for (const [key, setting] of from) {
    const present = into.get(key)?.value;
    if (key === 'saltbridge' && isSettings(present) && isSettings(setting.value)) {
      mergeSettings(present, setting.value);
    } else {
      into.set(key, setting);
    }
  }
}

function appendNew(list: readonly unknown[], more: readonly unknown[]): unknown[] {
  const merged = [...list];
  for (const value of more) {
    if (!list.some((present) => isDeepStrictEqual(present, value))) merged.push(value);
  }
  return merged;
}

/** One member of a map: its name in files, and how its value is checked. */
interface SectionRow<T> {
  readonly name: string;
  readonly kind: OptionKind<T>;
}

/** A row for each member that may be set. */
export type SectionTable<T> = { readonly [Name in keyof T]-?: SectionRow<NonNullable<T[Name]>> };

/**
 * Reads a map of a few named values, none of which must be there: by their names in files, by
 * their members where a program passes them. `undefined` when it is none, or has others.
 */
export function readSection<T extends object>(
  table: SectionTable<T>,
  value: unknown,
): Partial<T> | undefined {
  const entries = sectionEntries(value);
  if (entries === undefined) return undefined;
  const section: Partial<T> = {};
  for (const [given, found] of entries) {
    const member = memberOf(table, given, isSettings(value));
    const read = member === undefined ? undefined : table[member].kind.parse(found);
    if (member === undefined || read === undefined) return undefined;
    section[member] = read;
  }
  return section;
}

/** From a file, or from a program. What has no value is not set. */
export function sectionEntries(value: unknown): (readonly [string, unknown])[] | undefined {
  if (isSettings(value)) {
    return [...value].flatMap(([name, setting]) =>
      setting.value === null ? [] : [[name, setting.value] as const],
    );
  }
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? Object.entries(value).filter(([, found]) => found !== undefined) : undefined;
}

function memberOf<T extends object>(
  table: SectionTable<T>,
  given: string,
  isInFile: boolean,
): keyof T | undefined {
  for (const member in table) {
    if (given === (isInFile ? table[member].name : member)) return member;
  }
  return undefined;
}

/** A value of a file as plain data. */
export function toPlain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toPlain);
  if (value instanceof Date) return value.toISOString();
  if (isSettings(value)) return fromSettings(value);
  return value;
}

/** The entries of a map, from a file or from a program; `undefined` of anything else. */
export function entriesOf(value: unknown): [name: string, value: unknown][] | undefined {
  const plain = toPlain(value);
  const isMap = typeof plain === 'object' && plain !== null && !Array.isArray(plain);
  return isMap ? Object.entries(plain) : undefined;
}

/** Maps at the top of a file are settings, those in lists plain maps. */
function fromSettings(map: Settings | ReadonlyMap<unknown, unknown>): Record<string, unknown> {
  const plain: Record<string, unknown> = Object.create(null);
  for (const [name, item] of map)
    plain[String(name)] = toPlain(isSetting(item) ? item.value : item);
  return plain;
}

function isSetting(item: unknown): item is Setting {
  return typeof item === 'object' && item !== null && 'origin' in item && 'value' in item;
}

/** The name that differs least from `name`, if the difference looks like a slip of the hand. */
function nearestName(name: string, known: readonly string[]): string | undefined {
  let best: { readonly candidate: string; readonly distance: number } | undefined;
  for (const candidate of known) {
    const distance = editDistance(name, candidate);
    if (best === undefined || distance < best.distance) best = { candidate, distance };
  }
  if (best === undefined || best.distance > Math.max(2, name.length / 3)) return undefined;
  return best.candidate;
}

/** Levenshtein's distance, a row at a time. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(substitution, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}

/** Why a configuration was refused; what each means is in {@link configErrors}. */
export type ConfigErrorCode =
  | 'ERR_CONFIG_READ'
  | 'ERR_CONFIG_SYNTAX'
  | 'ERR_OPTION_CONFLICT'
  | 'ERR_OPTION_RENAMED'
  | 'ERR_OPTION_TYPE'
  | 'ERR_OPTION_UNKNOWN';

/** Where an option was found. */
export interface OptionOrigin {
  /** Path of the file; `options` for values that a program passed. */
  readonly file: string;
  /** 1 is the first; 0 if there is none. */
  readonly line: number;
  /** As written there, for instance `publish_port` or `saltbridge:limits:burst`; '' for the file. */
  readonly key: string;
}

/** A configuration that cannot be used. The message names the place and never a value. */
export class ConfigError extends SaltbridgeError {
  declare readonly code: ConfigErrorCode;
  readonly file: string;
  readonly line: number;
  readonly key: string;
  /** The message without the place. */
  readonly problem: string;

  constructor(
    code: ConfigErrorCode,
    origin: OptionOrigin,
    problem: string,
    options?: ErrorOptions,
  ) {
    super(code, describe(origin, problem), options);
    this.file = origin.file;
    this.line = origin.line;
    this.key = origin.key;
    this.problem = problem;
  }
}

/** The catalogue of {@link ConfigErrorCode}. */
export const configErrors: Readonly<Record<ConfigErrorCode, ErrorEntry>> = {
  ERR_CONFIG_READ: {
    meaning: 'A configuration file exists but could not be read, or includes itself.',
    action: 'Look at the cause; give the service user the right to read the file.',
    retry: true,
  },
  ERR_CONFIG_SYNTAX: {
    meaning: 'A file is not YAML, names a key twice, uses a tag, or is not a map of options.',
    action: 'Correct the line named; the YAML is version 1.1, as in Salt.',
    retry: false,
  },
  ERR_OPTION_CONFLICT: {
    meaning: 'Options that are right by themselves contradict each other.',
    action: 'Change one of the two that the message names.',
    retry: false,
  },
  ERR_OPTION_RENAMED: {
    meaning: 'An option is used under a former name.',
    action: 'Use the name in the message; saltbridge migrate check lists all former names.',
    retry: false,
  },
  ERR_OPTION_TYPE: {
    meaning: 'The value of an option is of another type or outside of its range.',
    action: 'Write what the message says was expected.',
    retry: false,
  },
  ERR_OPTION_UNKNOWN: {
    meaning: 'An option under saltbridge:, or one that a program passed, does not exist.',
    action: 'Use the name that the message proposes, or remove the option.',
    retry: false,
  },
};

function describe({ file, line, key }: OptionOrigin, problem: string): string {
  const place = line === 0 ? file : `${file}:${line}`;
  return key === '' ? `${place}: ${problem}` : `${place}: ${key}: ${problem}`;
}

/** The refusal of a name that nobody has, with the one that was probably meant. */
export function unknownOption(origin: OptionOrigin, known: readonly string[]): ConfigError {
  const name = origin.key.split(':').at(-1) ?? '';
  const nearest = nearestName(name, known);
  const proposal =
    nearest === undefined ? `known are ${known.join(', ')}` : `did you mean ${nearest}?`;
  return new ConfigError('ERR_OPTION_UNKNOWN', origin, `there is no such option; ${proposal}`);
}

/** The refusal of a value, which it describes by its type alone. */
export function typeError(origin: OptionOrigin, found: unknown, expected: string): ConfigError {
  return new ConfigError(
    'ERR_OPTION_TYPE',
    origin,
    `found ${nameType(found)}, expected ${expected}`,
  );
}

function nameType(value: unknown): string {
  if (value === null) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (value instanceof Map) return 'a map';
  if (value instanceof Date) return 'a date';
  if (typeof value === 'string') return value === '' ? 'empty text' : 'a text';
  if (typeof value === 'number') return Number.isInteger(value) ? 'a whole number' : 'a number';
  if (typeof value === 'boolean') return 'true or false';
  return `a value of type ${typeof value}`;
}

/** Something in the configuration that has no effect, or another than in Salt, and that the operator should know of. */
export interface ConfigWarning extends OptionOrigin {
  readonly kind: /** The main file does not exist. */
    | 'missing-file'
    /** An `include:` that finds no file. */
    | 'nothing-included'
    /** An option that Salt has and this master does not serve; the message says what to do. */
    | 'not-served'
    /** Expressions that permit less than in Salt. */
    | 'narrowed'
    /** Rights of users that are wider than they seem, mean less than in Salt, or cannot be read. */
    | 'rights'
    /** The reactor listens for tags that no rule lets anybody emit. */
    | 'unheard'
    /** A value that another option does not let have its effect. */
    | 'bounded'
    /** One that nothing is lost without. */
    | 'not-needed'
    /** An option that neither has. */
    | 'unknown-option';
  /** One line that names the place. */
  readonly message: string;
}

// Lists.

/** The entries of a map; none of anything else. */
export function pairsOf(value: unknown): [name: string, value: unknown][] {
  return entriesOf(value) ?? [];
}

/** The texts of a list, or of one text. */
export function textsOf(value: unknown): string[] {
  return [value].flat().filter((item) => typeof item === 'string');
}

/**
 * The names in one of Salt's lists of modules: `[name, {name: options}]`, a map or one name.
 */
export function moduleNames(value: unknown): string[] {
  return [value]
    .flat()
    .flatMap((item) => (typeof item === 'string' ? [item] : pairsOf(item).map(([name]) => name)));
}

/** `file:line`, or the file alone. */
export function placeOf({ file, line }: Pick<OptionOrigin, 'file' | 'line'>): string {
  return line === 0 ? file : `${file}:${line}`;
}

/** The message of a problem or a warning without the place in front, where that is told beside it. */
export function withoutPlace(it: OptionOrigin & { readonly message: string }): string {
  const place = `${placeOf(it)}: `;
  return it.message.startsWith(place) ? it.message.slice(place.length) : it.message;
}
