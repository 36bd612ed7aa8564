import { MasterError } from '#master';
import { JsonError, parseJsonNumbers } from '#runtime';
import { Float, type PlainData, TemplateError } from '#template';
import { jsonNumber } from '#template/python/json.ts';

/** Whether data is false in Python. */
export function isEmpty(data: PlainData): boolean {
  if (data instanceof Float) return data.value === 0;
  if (typeof data === 'object' && data !== null) {
    if (Array.isArray(data)) return data.length === 0;
    return data instanceof Map && data.size === 0;
  }
  return data === null || data === false || data === 0 || data === '';
}

/**
 * Returns the reason why a file is invalid, for messages.
 * @throws the error itself if the file did not cause it
 */
export function reasonOf(error: unknown): string {
  if (error instanceof TemplateError || error instanceof MasterError) return error.message;
  throw error;
}

/**
 * Parses JSON.
 * @throws TemplateError ERR_YAML, the code for text without valid data, also if the values are
 * nested too deeply, or are more than `maxValues`
 */
export function parseJsonData(text: string, name: string, maxValues: number): PlainData {
  try {
    return new JsonData(maxValues).from(parseJsonNumbers(text, jsonNumber), 1);
  } catch (cause) {
    if (!(cause instanceof SyntaxError || cause instanceof JsonError)) throw cause;
    const isBeyondBounds = cause instanceof JsonError && cause.reason !== 'syntax';
    throw new TemplateError('ERR_YAML', {
      place: { file: name, line: lineOf(cause, text) },
      kind: 'JSONDecodeError',
      detail: isBeyondBounds ? cause.message : 'invalid JSON',
      cause,
    });
  }
}

/** Maximum nesting depth of JSON, as for YAML. Results with more levels could not be encoded. */
const maxLevels = 100;

/** Converts parsed JSON. */
class JsonData {
  readonly #maxValues: number;
  #values = 0;

  constructor(maxValues: number) {
    this.#maxValues = maxValues;
  }

  /**
   * Converts a value. As in Python, the last of duplicate keys is used.
   * @throws JsonError if the values are nested too deeply, or are too many
   */
  from(parsed: unknown, level: number): PlainData {
    this.#count(1);
    if (typeof parsed === 'number' || typeof parsed === 'bigint') return parsed;
    if (typeof parsed === 'string' || typeof parsed === 'boolean') return parsed;
    if (parsed instanceof Float) return parsed;
    if (parsed === null || typeof parsed !== 'object') return null;
    if (level > maxLevels) throw new JsonError('limit', `more than ${maxLevels} levels`);
    if (Array.isArray(parsed)) return parsed.map((item) => this.from(item, level + 1));
    const entries = Object.entries(parsed);
    this.#count(entries.length);
    return new Map(entries.map(([key, value]) => [key, this.from(value, level + 1)]));
  }

  #count(values: number): void {
    this.#values += values;
    if (this.#values > this.#maxValues) {
      throw new JsonError('limit', `more than ${this.#maxValues} values`);
    }
  }
}

/**
 * Returns the line of a syntax error. The JavaScript engine gives the position only in its message.
 */
function lineOf({ message }: Error, text: string): number {
  const [, position] = /(?:at position|see character) (\d+)/.exec(message) ?? [];
  return text.slice(0, Number(position ?? text.length)).split('\n').length;
}

export function isList(data: PlainData | undefined): data is readonly PlainData[] {
  return Array.isArray(data);
}

/** An immutable map of pillar data. Merging creates new maps. */
export type PillarMap = ReadonlyMap<PlainData, PlainData>;

/** Whether data is a map. */
export function isPillarMap(data: PlainData | undefined): data is PillarMap {
  return data instanceof Map;
}
