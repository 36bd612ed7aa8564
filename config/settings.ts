/** Options as files and programs set them. Each value has its location. */

import { isDeepStrictEqual } from 'node:util';
import type { ValuePath } from '#runtime';
import type { OptionOrigin } from './config-error.ts';

/** Value of an option, as written: a scalar, a list, or {@link Settings} for a map. */
export interface Setting {
  readonly value: unknown;
  readonly origin: OptionOrigin;
  /** Items of a list from a file, each with its location. Maps among them are {@link Settings}. */
  readonly entries?: readonly Setting[];
}

/**
 * Options of a file or of a map in it, by key. It is a `Map`, so that no key can reach an object's
 * prototype. Masters in one process may share it, so nothing may change it after it was parsed.
 */
export type Settings = ReadonlyMap<string, Setting>;

/** Options as written, by their names in files. */
export interface GivenOptions {
  readonly salt: Settings;
  /** Options under `saltbridge:`. */
  readonly own: Settings;
  /** Options under `saltbridge:limits:`. */
  readonly limits: Settings;
  /** Options under `saltbridge:acl:`. */
  readonly acl: Settings;
}

/**
 * Returns the location of an option. If a program has set the option, or if it is not set, the
 * location names the file `options`.
 */
export function originOfSetting(settings: Settings, key: string): OptionOrigin {
  return settings.get(key)?.origin ?? { file: 'options', line: 0, key };
}

/** Whether a setting is a map. */
export function isSettings(value: unknown): value is Settings {
  return value instanceof Map;
}

/**
 * Merges the files of one `include`. Maps are merged, and lists are appended without duplicates.
 * Other values are replaced [salt.utils.dictupdate.update with merge_lists].
 */
export function mergeSettings(first: Settings, later: Settings): Settings {
  const merged = new Map(first);
  for (const [key, setting] of later) {
    const before = first.get(key);
    const present = before?.value;
    if (before !== undefined && isSettings(present) && isSettings(setting.value)) {
      merged.set(key, { ...before, value: mergeSettings(present, setting.value) });
    } else if (before !== undefined && Array.isArray(present) && Array.isArray(setting.value)) {
      merged.set(key, appendNew(before, setting));
    } else {
      merged.set(key, setting);
    }
  }
  return merged;
}

/**
 * Merges the options of included files into the options of the including file. If both set an
 * option, the value of the included file replaces the whole value of the including file, as in Salt
 * [salt.config.master_config]. Only the section `saltbridge` is merged, because it contains many
 * options.
 */
export function overrideSettings(including: Settings, included: Settings): Settings {
  const whole = new Map([...including, ...included]);
  const [before, setting] = [including.get('saltbridge'), included.get('saltbridge')];
  if (before !== undefined && isSettings(before.value) && isSettings(setting?.value)) {
    whole.set('saltbridge', { ...before, value: mergeSettings(before.value, setting.value) });
  }
  return whole;
}

/**
 * Returns the items of `setting`, followed by those items of `more` that `setting` does not
 * contain.
 */
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

/**
 * Returns the items of a list from a file or a program, each with its location. Returns none for
 * other values.
 */
export function itemsOf(setting: Setting): readonly Setting[] {
  const { entries, origin } = setting;
  if (entries !== undefined) return entries;
  return listIn(setting).map((value, index) => ({ value, origin: originOfPath(origin, [index]) }));
}

/**
 * Returns a copy of a value without the parts at the given locations. If a location does not exist,
 * removes its nearest parent that exists. Returns `undefined` if nothing remains, or if nothing was
 * removed.
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

/**
 * Returns the plain value of a list item, without locations. The property `value` of a list
 * contains its items in this form.
 */
function toData({ value, entries }: Setting): unknown {
  if (entries !== undefined) return entries.map(toData);
  if (!isSettings(value)) return value;
  return new Map([...value].map(([name, inner]) => [name, toData(inner)]));
}

function isSamePlace(one: OptionOrigin, other: OptionOrigin): boolean {
  return nameOfPlace(one) === nameOfPlace(other) && isSameList(one, other);
}

/**
 * Whether the location `other` is inside the location `one`, for example an option inside a
 * section, or an item inside a list.
 */
export function isAbove(one: OptionOrigin, other: OptionOrigin): boolean {
  const rest = nameOfPlace(other).slice(nameOfPlace(one).length);
  const isBelow = nameOfPlace(other).startsWith(nameOfPlace(one)) && /^[:[]/.test(rest);
  return isBelow && isSameList(one, other);
}

function nameOfPlace({ key, entry = '' }: OptionOrigin): string {
  return `${key}${entry}`;
}

/**
 * Whether the names of two locations can be compared. If `one` is inside a list, its name contains
 * a list index. Each file counts indexes from 0, so `other` must then be in the same file.
 */
function isSameList(one: OptionOrigin, other: OptionOrigin): boolean {
  return one.entry === undefined || one.file === other.file;
}

/**
 * Returns the location of the value at a path within a setting. If the path does not exist, returns
 * the location of the nearest enclosing value that exists.
 */
export function placeWithin(setting: Setting, path: ValuePath): OptionOrigin {
  const [step, ...rest] = path;
  if (step === undefined) return setting.origin;
  const inner =
    typeof step === 'number'
      ? itemsOf(setting)[step]
      : settingsOf(setting).find(([name]) => name === step)?.[1];
  return inner === undefined ? setting.origin : placeWithin(inner, rest);
}

/** Returns the entries of a map from a file or a program, each with its location. */
export function settingsOf({ value, origin }: Setting): (readonly [string, Setting])[] {
  if (isSettings(value)) return [...value].filter(([, inner]) => inner.value !== null);
  return (sectionEntries(value) ?? []).map(([name, inner]) => [
    name,
    { value: inner, origin: originOfMember(origin, name) },
  ]);
}

/** Returns the location of a member of a map. */
export function originOfMember(origin: OptionOrigin, name: string): OptionOrigin {
  const { key, entry } = origin;
  if (entry === undefined) return { ...origin, key: `${key}:${name}` };
  return { ...origin, entry: `${entry}:${name}` };
}

/**
 * Returns the location of a value inside a section or list.
 * @param origin - location of the section or list
 * @param path - path of the value inside it. The value need not exist
 */
export function originOfPath(origin: OptionOrigin, path: ValuePath): OptionOrigin {
  let place = origin;
  for (const step of path) {
    if (typeof step === 'number') place = { ...place, entry: `${place.entry ?? ''}[${step}]` };
    else place = originOfMember(place, step);
  }
  return place;
}

/**
 * Returns the entries of a section from a file or a program. Omits entries without a value. Returns
 * `undefined` if the value is not a map.
 */
export function sectionEntries(value: unknown): (readonly [string, unknown])[] | undefined {
  if (isSettings(value)) {
    return [...value].flatMap(([name, setting]) =>
      setting.value === null ? [] : [[name, setting.value] as const],
    );
  }
  const isObject =
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Date);
  return isObject ? Object.entries(value).filter(([, found]) => found !== undefined) : undefined;
}

/** Converts a value from a file to plain data: objects, lists and scalars. */
export function toPlain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toPlain);
  if (value instanceof Date) return value.toISOString();
  if (isSettings(value)) return fromSettings(value);
  return value;
}

/** Returns the entries of a map from a file or a program, or `undefined` for other values. */
export function entriesOf(value: unknown): [name: string, value: unknown][] | undefined {
  const plain = toPlain(value);
  const isMap = typeof plain === 'object' && plain !== null && !Array.isArray(plain);
  return isMap ? Object.entries(plain) : undefined;
}

/**
 * Converts a map from a file to an object with plain values. The values of the map are settings, or
 * plain values if the map is an item of a list.
 */
function fromSettings(map: Settings | ReadonlyMap<unknown, unknown>): Record<string, unknown> {
  const plain: Record<string, unknown> = Object.create(null);
  for (const [name, item] of map)
    plain[String(name)] = toPlain(isSetting(item) ? item.value : item);
  return plain;
}

/** Whether a value from a file has an origin. */
export function isSetting(item: unknown): item is Setting {
  return typeof item === 'object' && item !== null && 'origin' in item && 'value' in item;
}

/** Returns the settings of a section, or none if the section does not exist or is not a map. */
export function sectionOf(settings: Settings, name: string): Settings {
  const value = settings.get(name)?.value;
  return isSettings(value) ? value : new Map();
}

/** Returns the entries of a map, or none for other values. */
export function pairsOf(value: unknown): [name: string, value: unknown][] {
  return entriesOf(value) ?? [];
}

/** Returns the texts of a list, or of a single text. */
export function textsOf(value: unknown): string[] {
  return [value].flat().filter((item) => typeof item === 'string');
}

/**
 * Returns the names in a list of modules. Salt accepts `[name, {name: options}]`, a map, or a
 * single name.
 */
export function moduleNames(value: unknown): string[] {
  return [value]
    .flat()
    .flatMap((item) => (typeof item === 'string' ? [item] : pairsOf(item).map(([name]) => name)));
}
