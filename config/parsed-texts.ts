/**
 * Contents of large configuration files by the digest of their text. A site reads the files of a
 * release several times, and all sites of a process read the same files. Each reader gets a copy,
 * so that masters share nothing that can change.
 */

import { createHash } from 'node:crypto';
import { createBoundedMap } from '#runtime';
import { configLimits } from './limits.ts';
import { isSettings, type Setting, type Settings } from './settings.ts';

/** Minimum size of a text that is kept, in characters. Smaller texts are parsed quickly. */
const smallestKept = 16_384;

interface ParsedText {
  readonly settings: Settings;
  readonly characters: number;
}

const kept = createBoundedMap<string, ParsedText>(configLimits.parsedTexts, {
  sizeOf: ({ characters }) => characters,
});

/**
 * Returns the content of a configuration file.
 * @param parse - parses the text, if its content is not kept
 * @param file - path of the file, for the locations of values
 */
export function parsedOnce(
  text: string,
  file: string,
  parse: (text: string, file: string) => Settings,
): Settings {
  if (text.length < smallestKept) return parse(text, file);
  const digest = createHash('sha256').update(text).digest('base64');
  const known = kept.get(digest);
  if (known !== undefined) return copyOf(known.settings, file);
  const settings = parse(text, file);
  kept.set(digest, { settings: copyOf(settings, file), characters: text.length });
  return settings;
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

/** Copies lists, and the maps in them. Other values of a file do not change. */
function copyOfData(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyOfData);
  if (value instanceof Map) return new Map([...value].map(([key, it]) => [key, copyOfData(it)]));
  return value;
}
