import { MasterError } from '#master';
import { exactNumber, JsonError, parseJson, parseJsonNumbers } from '#runtime';
import { Float, type PlainData, TemplateError } from '#template';

/** What counts as nothing in Python. */
export function isEmpty(data: PlainData): boolean {
  if (typeof data === 'object' && data !== null) {
    if (Array.isArray(data)) return data.length === 0;
    return data instanceof Map && data.size === 0;
  }
  return data === null || data === false || data === 0 || data === '';
}

/**
 * What is wrong with a file, for whoever may know.
 * @throws what is no fault of the file
 */
export function reasonOf(error: unknown): string {
  if (error instanceof TemplateError || error instanceof MasterError) return error.message;
  throw error;
}

/**
 * Reads JSON as data.
 * @throws TemplateError ERR_YAML, the code of a text that holds no data
 */
export function parseJsonData(text: string, name: string): PlainData {
  try {
    return toData(mayHaveFloat.test(text) ? parseJsonNumbers(text, pythonNumber) : parseJson(text));
  } catch (cause) {
    if (!(cause instanceof SyntaxError || cause instanceof JsonError)) throw cause;
    const isBeyondBounds = cause instanceof JsonError && cause.reason !== 'syntax';
    throw new TemplateError('ERR_YAML', {
      place: { file: name, line: lineOf(cause, text) },
      kind: 'JSONDecodeError',
      detail: isBeyondBounds ? cause.message : 'this is not JSON',
      cause,
    });
  }
}

/** Matches what may be a float without a fraction; it may also match a part of a string. */
const mayHaveFloat = /\d(?:\.\d*0|[eE])/;

/** The number of a token, as Python reads it: `1.0` is a float. */
function pythonNumber(token: string): number | bigint | Float {
  const number = exactNumber(token);
  return /[.eE]/.test(token) && Number.isSafeInteger(number) ? new Float(Number(number)) : number;
}

/** Of keys that are there twice the last one counts, as in Python. */
function toData(parsed: unknown): PlainData {
  if (typeof parsed === 'number' || typeof parsed === 'bigint') return parsed;
  if (typeof parsed === 'string' || typeof parsed === 'boolean') return parsed;
  if (parsed instanceof Float) return parsed;
  if (Array.isArray(parsed)) return parsed.map(toData);
  if (typeof parsed !== 'object' || parsed === null) return null;
  return new Map(Object.entries(parsed).map(([key, value]) => [key, toData(value)]));
}

/** The engine tells the position in its message, and nowhere else. */
function lineOf({ message }: Error, text: string): number {
  const [, position] = /(?:at position|see character) (\d+)/.exec(message) ?? [];
  return text.slice(0, Number(position ?? text.length)).split('\n').length;
}

export function isList(data: PlainData | undefined): data is readonly PlainData[] {
  return Array.isArray(data);
}

/** A map of pillar data. Maps are never changed: what is merged is made anew. */
export type PillarMap = ReadonlyMap<PlainData, PlainData>;

/** Whether data are a map. */
export function isPillarMap(data: PlainData | undefined): data is PillarMap {
  return data instanceof Map;
}
