/**
 * Caches the parsed contents of large configuration files by the digest of their text. A master
 * reads its files several times, and the sites of a process read the same files of a release.
 * Readers of the same text under the same file name get the same objects, which are read-only.
 * Other modules can therefore cache data about a part of the content in a `WeakMap`.
 */

import { hash } from 'node:crypto';
import { createBoundedMap } from '#runtime';
import { configLimits } from './limits.ts';
import { isSettings, type Setting, type Settings } from './settings.ts';

/**
 * Minimum size of a text whose parsed content is cached, in characters. Smaller texts are parsed
 * each time, because this is fast.
 */
const smallestKept = 16_384;

interface ParsedText {
  readonly file: string;
  readonly settings: Settings;
  readonly characters: number;
}

const kept = createBoundedMap<string, ParsedText>(configLimits.parsedTexts, {
  sizeOf: ({ characters }) => characters,
});

/**
 * Returns the content of a configuration file.
 * @param parse - parses the text if its content is not cached
 * @param file - path of the file, for the locations of values
 */
export function parsedOnce(
  text: string,
  file: string,
  parse: (text: string, file: string) => Settings,
): Settings {
  if (text.length < smallestKept) return parse(text, file);
  const digest = hash('sha256', text, 'base64');
  const known = kept.get(digest);
  if (known?.file === file) return known.settings;
  const settings = known === undefined ? parse(text, file) : copyOf(known.settings, file);
  protect(settings);
  kept.set(digest, { file, settings, characters: text.length });
  return settings;
}

const unchanging = {
  value: () => {
    throw new TypeError(
      'cannot change this object, because several masters share it as the parsed text of a configuration file; change a copy of the object',
    );
  },
};

/** Makes a value and everything in it read-only, except for dates and bytes. */
function protect(value: unknown): void {
  if (value instanceof Map) {
    // Object.freeze does not protect the entries of a map. The properties are not enumerable, so
    // the map stays equal to another with the same entries.
    Object.defineProperties(value, { set: unchanging, delete: unchanging, clear: unchanging });
    for (const inner of value.values()) protect(inner);
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  if (value instanceof Date || ArrayBuffer.isView(value)) return;
  for (const inner of Object.values(value)) protect(inner);
  Object.freeze(value);
}

function copyOf(settings: Settings, file: string): Settings {
  return new Map([...settings].map(([name, setting]) => [name, copyOfSetting(setting, file)]));
}

function copyOfSetting({ value, origin, entries }: Setting, file: string): Setting {
  return {
    value: isSettings(value) ? copyOf(value, file) : copyOfData(value),
    origin: { ...origin, file },
    ...(entries === undefined ? {} : { entries: entries.map((it) => copyOfSetting(it, file)) }),
  };
}

/**
 * Copies a list or map, with all lists and maps inside it. Other values are returned as they are,
 * because no code changes them.
 */
function copyOfData(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyOfData);
  if (value instanceof Map) return new Map([...value].map(([key, it]) => [key, copyOfData(it)]));
  return value;
}
