import { randomUUID } from 'node:crypto';
import { type JsonValue, readJson } from './json-reader.ts';

/** A number that may be an integer beyond 2^53; it may as well be a part of a string. */
const longNumber = /(?:^|[-:,[\s])\d{16}/;

/** Reads JSON from a source that is trusted: `bigint` beyond 2^53. @throws SyntaxError, JsonError */
export function parseJson(text: string): JsonValue {
  return longNumber.test(text) ? readJson(text) : JSON.parse(text);
}

/**
 * Writes what `JSON.stringify` writes, and a `bigint` as the number that it is.
 * @param indent - spaces for each level. Default: all on one line
 * @throws TypeError for what contains itself
 */
export function writeJson(value: unknown, indent?: number): string {
  try {
    return JSON.stringify(value, null, indent);
  } catch (error) {
    // It refuses a `bigint`, and is much slower where it asks what to write instead.
    if (error instanceof TypeError) return writeWithBigints(value, indent);
    throw error;
  }
}

function writeWithBigints(value: unknown, indent: number | undefined): string {
  const mark = randomUUID();
  const marked = (_: string, item: unknown): unknown =>
    typeof item === 'bigint' ? `${mark}${item}` : item;
  const numbers = new RegExp(`"${mark}(-?\\d+)"`, 'g');
  return JSON.stringify(value, marked, indent).replaceAll(numbers, '$1');
}
