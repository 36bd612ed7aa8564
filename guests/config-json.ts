/** JSON of templates, bounded in depth: whoever walks through it calls itself for each level. */

import { type JsonValue, readJson } from '#runtime';

/** Levels of lists and maps that a config or an input has. */
export const maxConfigDepth = 64;

/** What a config says that is text; `undefined`: it is no JSON, or nested deeper. */
export function readConfigJson(text: string): JsonValue | undefined {
  try {
    return readJson(text, { maxDepth: maxConfigDepth });
  } catch {
    return undefined;
  }
}

/** Whether lists and maps are nested in a value more than so many levels deep. */
export function isNestedDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((it) => isNestedDeeper(it, levels - 1));
}

/** The value; where it is nested deeper, a copy that has `null` for what is below. */
export function cutNesting(value: unknown, levels: number): unknown {
  if (isNestedDeeper(value, levels)) return copyLevels(value, levels);
  return value;
}

function copyLevels(value: unknown, levels: number): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (levels === 0) return null;
  if (Array.isArray(value)) return value.map((it) => copyLevels(it, levels - 1));
  const entries = Object.entries(value).map(([key, it]) => [key, copyLevels(it, levels - 1)]);
  return Object.fromEntries(entries);
}
