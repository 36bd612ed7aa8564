import { isDeepStrictEqual } from 'node:util';
import type { OptionOrigin } from './errors.ts';

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
