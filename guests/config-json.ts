/**
 * Parses JSON from templates with a depth limit, because the functions that process it are
 * recursive.
 */

import { parseExactJson } from '#master';
import { type JsonOf, readJson } from '#runtime';
import { jsonNumber } from '#template/python/json.ts';
import { Float } from '#template/python/values.ts';

/** Maximum nesting of lists and maps in a config or an input, in levels. */
export const maxConfigDepth = 64;

/**
 * Parses a config that is JSON text. Floats without a fraction become `Float`. Returns `undefined`
 * if it is not JSON or is nested too deeply.
 */
export function readConfigJson(text: string): JsonOf<Float> | undefined {
  try {
    return readJson(text, { maxDepth: maxConfigDepth, readNumber: jsonNumber });
  } catch {
    return undefined;
  }
}

/**
 * Parses JSON. A float without a fraction is a `Float`. Returns `undefined` if the text is not JSON.
 */
export function tryParseExactJson(text: string): unknown {
  try {
    return parseExactJson(text);
  } catch {
    return undefined;
  }
}

/** Whether a value nests lists and maps more than `levels` deep. */
export function isNestedDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null || value instanceof Float) return false;
  return levels === 0 || Object.values(value).some((it) => isNestedDeeper(it, levels - 1));
}

/**
 * Returns a value in which lists and maps nested more than `levels` deep are replaced by `null`.
 */
export function cutNesting(value: unknown, levels: number): unknown {
  if (isNestedDeeper(value, levels)) return copyLevels(value, levels);
  return value;
}

function copyLevels(value: unknown, levels: number): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Float) return value;
  if (levels === 0) return null;
  if (Array.isArray(value)) return value.map((it) => copyLevels(it, levels - 1));
  const entries = Object.entries(value).map(([key, it]) => [key, copyLevels(it, levels - 1)]);
  return Object.fromEntries(entries);
}
