/** Options as files and programs give them: values with the place of each. */

import { isDeepStrictEqual } from 'node:util';
import type { ValuePath } from '#runtime';
import type { OptionOrigin } from './config-error.ts';

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
  const isObject =
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Date);
  return isObject ? Object.entries(value).filter(([, found]) => found !== undefined) : undefined;
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
