import { isDeepStrictEqual } from 'node:util';
import type { Static, TSchema } from 'typebox';
import { Type } from 'typebox';
import { Value } from 'typebox/value';
import { nearestName, type ValuePath } from '#runtime';
import {
  ConfigError,
  type OptionOrigin,
  proposeName,
  typeError,
  unknownOption,
} from './config-error.ts';

/** How the value of an option is checked. */
export interface OptionKind<T> {
  /** What is expected, in words for the operator. */
  readonly expected: string;
  /** Whether Salt joins it to `root_dir`. */
  readonly isPath: boolean;
  /** The value in its final form; `undefined` when it is not one of this kind. */
  parse(value: unknown): T | undefined;
  /**
   * Says more of a value that was refused than its type. Default, and where it has nothing to say:
   * the type that was found, and what was expected.
   */
  explain?(setting: Setting): ConfigError | undefined;
}

/** The refusal of a value that is not of its kind. */
export function refuseValue(
  { expected, explain }: Pick<OptionKind<unknown>, 'expected' | 'explain'>,
  setting: Setting,
): ConfigError {
  return explain?.(setting) ?? typeError(setting.origin, setting.value, expected);
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
  explain: (setting) => explainItems(numericText, setting),
};

/** A list, each item of some kind. @param items what the list is read by */
export function listOf<T>(
  items: OptionKind<readonly string[]>,
  item: OptionKind<T>,
): OptionKind<readonly T[]> {
  return {
    expected: `a list, each ${item.expected}`,
    isPath: false,
    parse: (value) => {
      const list = items.parse(value)?.map((each) => item.parse(each));
      return list?.every((each) => each !== undefined) === true ? list : undefined;
    },
    explain: (setting) => explainItems(item, setting),
  };
}

/** A path from the root on. */
export const absolutePath: OptionKind<string> = {
  expected: 'an absolute path',
  isPath: false,
  parse: (value) => {
    const place = text.parse(value);
    return place?.startsWith('/') ? place : undefined;
  },
};

/** Headers of a request. */
export const headers: OptionKind<Readonly<Record<string, string>>> = {
  expected: 'a map of names to texts',
  isPath: false,
  parse: (value) => {
    const pairs = entriesOf(value);
    const texts = pairs?.filter((pair): pair is [string, string] => typeof pair[1] === 'string');
    if (texts === undefined || texts.length !== pairs?.length) return undefined;
    try {
      new Headers(texts);
      return Object.fromEntries(texts);
    } catch {
      return undefined;
    }
  },
};

/** A whole number. */
export function integer(minimum: number, maximum: number): OptionKind<number> {
  const expected = `a whole number from ${minimum} to ${maximum}`;
  return numeric(kind(Type.Integer({ minimum, maximum }), expected), minimum, maximum);
}

/** A number, with or without fraction. */
export function number(minimum: number, maximum: number): OptionKind<number> {
  const expected = `a number from ${minimum} to ${maximum}`;
  return numeric(kind(Type.Number({ minimum, maximum }), expected), minimum, maximum);
}

/** A length of time, with or without fraction. */
export function duration(unit: 'seconds' | 'minutes' | 'hours'): OptionKind<number> {
  const schema = Type.Number({ minimum: 0, maximum: 1e9 });
  return numeric(kind(schema, `a number of ${unit}, 0 or more`), 0, 1e9);
}

/** Names the bound that a number breaks: where a number belongs, it is no secret. */
function numeric(base: OptionKind<number>, minimum: number, maximum: number): OptionKind<number> {
  return {
    ...base,
    explain: ({ origin, value }) => {
      if (typeof value !== 'number' || Number.isNaN(value)) return undefined;
      const [broken] = [
        ...(value > maximum ? [`over ${maximum}`] : []),
        ...(value < minimum ? [`under ${minimum}`] : []),
        'not a whole number',
      ];
      const problem = `${value} is ${broken}, expected ${base.expected}`;
      return new ConfigError('ERR_OPTION_TYPE', origin, problem);
    },
  };
}

/** One of a few words, in upper or lower case. */
export function oneOf<const T extends string>(words: readonly T[], note = ''): OptionKind<T> {
  const parse = (value: unknown): T | undefined =>
    words.find((word) => typeof value === 'string' && word.toLowerCase() === value.toLowerCase());
  const expected = `one of ${words.join(', ')}${note}`;
  const explain = ({ origin, value }: Setting): ConfigError | undefined => {
    const proposal = typeof value === 'string' ? proposeName(value, words) : undefined;
    if (proposal === undefined) return undefined;
    return typeError(origin, value, `${expected}; ${proposal}`);
  };
  return { expected, isPath: false, parse, explain };
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
  /** The items of a list from a file, with a place each; maps among them are {@link Settings}. */
  readonly entries?: readonly Setting[];
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

/** Where an option was set; `options`: by a program, or nowhere. */
export function originOfSetting(settings: Settings, key: string): OptionOrigin {
  return settings.get(key)?.origin ?? { file: 'options', line: 0, key };
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
    const before = into.get(key);
    const present = before?.value;
    if (isSettings(present) && isSettings(setting.value)) {
      mergeSettings(present, setting.value);
    } else if (before !== undefined && Array.isArray(present) && Array.isArray(setting.value)) {
      into.set(key, appendNew(before, setting));
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

/** Of two lists. */
function appendNew(setting: Setting, more: Setting): Setting {
  const list = listIn(setting);
  const added = listIn(more);
  const isNew = added.map((value) => !list.some((it) => isDeepStrictEqual(it, value)));
  return {
    ...more,
    value: [...list, ...added.filter((_, index) => isNew[index])],
    entries: [...itemsOf(setting), ...itemsOf(more).filter((_, index) => isNew[index])],
  };
}

function listIn({ value }: Setting): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The items of a list with a place each, from a file or from a program; none of anything else. */
export function itemsOf(setting: Setting): readonly Setting[] {
  const { entries, origin } = setting;
  if (entries !== undefined) return entries;
  return listIn(setting).map((value, index) => ({ value, origin: originOfPath(origin, [index]) }));
}

/**
 * A value without its parts at some places; of a place that is not there, without the nearest part
 * above it. `undefined`: nothing is left, or nothing was left out.
 */
export function withoutPlaces(
  setting: Setting,
  places: readonly OptionOrigin[],
): Setting | undefined {
  if (places.some((place) => isSamePlace(setting.origin, place))) return undefined;
  const rest = places.reduce(withoutPlace, setting);
  return rest === setting ? undefined : rest;
}

function withoutPlace(setting: Setting, place: OptionOrigin): Setting {
  const isList = Array.isArray(setting.value);
  const parts = isList ? itemsOf(setting).map((item) => ['', item] as const) : settingsOf(setting);
  const kept = parts.flatMap(([name, part]) => {
    if (isSamePlace(part.origin, place)) return [];
    if (!isAbove(part.origin, place)) return [[name, part] as const];
    const shorter = withoutPlace(part, place);
    return shorter === part ? [] : [[name, shorter] as const];
  });
  const isWhole = parts.every(([, part], index) => kept[index]?.[1] === part);
  if (isWhole) return setting;
  if (isList) {
    const entries = kept.map(([, item]) => item);
    return { ...setting, value: entries.map(toData), entries };
  }
  if (isSettings(setting.value)) return { ...setting, value: new Map(kept) };
  return { ...setting, value: Object.fromEntries(kept.map(([name, { value }]) => [name, value])) };
}

/** As files are read: maps in lists hold values, and no settings. */
function toData({ value, entries }: Setting): unknown {
  if (entries !== undefined) return entries.map(toData);
  if (!isSettings(value)) return value;
  return new Map([...value].map(([name, inner]) => [name, toData(inner)]));
}

function isSamePlace(one: OptionOrigin, other: OptionOrigin): boolean {
  return nameOfPlace(one) === nameOfPlace(other) && isSameList(one, other);
}

/** Whether a place is above another one. */
export function isAbove(one: OptionOrigin, other: OptionOrigin): boolean {
  const rest = nameOfPlace(other).slice(nameOfPlace(one).length);
  const isBelow = nameOfPlace(other).startsWith(nameOfPlace(one)) && /^[:[]/.test(rest);
  return isBelow && isSameList(one, other);
}

function nameOfPlace({ key, entry = '' }: OptionOrigin): string {
  return `${key}${entry}`;
}

/** Items are counted in each file. */
function isSameList(one: OptionOrigin, other: OptionOrigin): boolean {
  return one.entry === undefined || one.file === other.file;
}

/** The place of what names and places in lists lead to, or of the nearest thing above it. */
export function placeWithin(setting: Setting, path: ValuePath): OptionOrigin {
  const [step, ...rest] = path;
  if (step === undefined) return setting.origin;
  const inner =
    typeof step === 'number'
      ? itemsOf(setting)[step]
      : settingsOf(setting).find(([name]) => name === step)?.[1];
  return inner === undefined ? setting.origin : placeWithin(inner, rest);
}

/** Every item of a list that is refused, each by its own place. */
export function explainItems(
  kind: Pick<OptionKind<unknown>, 'expected' | 'explain' | 'parse'>,
  setting: Setting,
): ConfigError | undefined {
  const refused = itemsOf(setting).filter(({ value }) => kind.parse(value) === undefined);
  return ConfigError.of(refused.flatMap((item) => refuseValue(kind, item).problems));
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

/**
 * All that {@link readSection} refuses in a map, and members that it must have and has not;
 * `undefined` where there is nothing of that, or no map.
 */
export function explainSection<T extends object>(
  table: SectionTable<T>,
  setting: Setting,
  needed: readonly (keyof T)[] = [],
): ConfigError | undefined {
  return ConfigError.of(sectionProblems(table, setting, needed));
}

/** Every entry of a map that {@link readSection} refuses, by its own name and line. */
export function sectionProblems<T extends object>(
  table: SectionTable<T>,
  setting: Setting,
  needed: readonly (keyof T)[] = [],
): readonly ConfigError[] {
  const isInFile = isSettings(setting.value);
  const meant = membersMeant(table, setting.value);
  const missing = needed
    .filter((member) => meant?.has(member) === false)
    .map((member) => (isInFile ? table[member].name : String(member)));
  const refused = settingsOf(setting).flatMap(([given, inner]) => {
    const member = memberOf(table, given, isInFile);
    if (member === undefined) {
      return [unknownOption(inner.origin, namesOf(table, isInFile), 'ERR_OPTION_TYPE')];
    }
    const { kind } = table[member];
    return kind.parse(inner.value) === undefined ? refuseValue(kind, inner).problems : [];
  });
  return [
    ...refused,
    ...missing.map((it) => new ConfigError('ERR_OPTION_TYPE', setting.origin, `${it} must be set`)),
  ];
}

/**
 * The members that a map has, whatever their values, those of misspelt names among them;
 * `undefined`: it is no map.
 */
export function membersMeant<T extends object>(
  table: SectionTable<T>,
  value: unknown,
): ReadonlySet<keyof T> | undefined {
  const isInFile = isSettings(value);
  const members = sectionEntries(value)?.map(([given]) => {
    const nearest = nearestName(given, namesOf(table, isInFile)) ?? '';
    return memberOf(table, given, isInFile) ?? memberOf(table, nearest, isInFile);
  });
  return members && new Set(members.filter((member) => member !== undefined));
}

/** The entries of a map with a place each, from a file or from a program. */
export function settingsOf({ value, origin }: Setting): (readonly [string, Setting])[] {
  if (isSettings(value)) return [...value].filter(([, inner]) => inner.value !== null);
  return (sectionEntries(value) ?? []).map(([name, inner]) => [
    name,
    { value: inner, origin: originOfMember(origin, name) },
  ]);
}

/** The place of a member of a map. */
export function originOfMember(origin: OptionOrigin, name: string): OptionOrigin {
  const { key, entry } = origin;
  if (entry === undefined) return { ...origin, key: `${key}:${name}` };
  return { ...origin, entry: `${entry}:${name}` };
}

/** The place of what names and places in lists lead to, whether it is there or not. */
export function originOfPath(origin: OptionOrigin, path: ValuePath): OptionOrigin {
  let place = origin;
  for (const step of path) {
    if (typeof step === 'number') place = { ...place, entry: `${place.entry ?? ''}[${step}]` };
    else place = originOfMember(place, step);
  }
  return place;
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

/** The names that a map may have, in a file or in a program. */
function namesOf<T extends object>(table: SectionTable<T>, isInFile: boolean): string[] {
  const names: string[] = [];
  for (const member in table) names.push(isInFile ? table[member].name : member);
  return names;
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
