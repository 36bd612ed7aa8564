import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { type Channel, channel } from 'node:diagnostics_channel';

/** What JSON can say, with `T` in the place of some maps; an integer beyond 2^53 is a `bigint`. */
export type JsonOf<T> = null | boolean | number | bigint | string | T | JsonOf<T>[] | JsonMap<T>;

/** A map of JSON. Those that are read inherit nothing. */
interface JsonMap<T> {
  [key: string]: JsonOf<T>;
}

/** A value as JSON has it; an integer beyond 2^53 is a `bigint`. */
export type JsonValue =
  | bigint
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** Bounds of a text in JSON, and what becomes of its maps. */
export interface JsonOptions<T = never> {
  /** Values, keys not counted; a list or a map is one more. Default: any number. */
  readonly maxValues?: number;
  /** Levels of lists and maps. Default 256. */
  readonly maxDepth?: number;
  /**
   * Refuses what Salt's values cannot be: integers beyond 64 bits, infinite numbers, and text that
   * is not Unicode. Default false.
   */
  readonly isStrict?: boolean;
  /** Replaces each map once it is complete. Default: it stays. */
  readonly replaceMap?: (map: JsonMap<T>) => JsonOf<T>;
}

/** What one synchronous step of reading worked on; finding the next quote of a string is free. */
export interface ReadingStep {
  readonly characters: number;
  readonly values: number;
}

/** Bounds of one step. */
export const maxReadingStep: ReadingStep = { characters: 140_000, values: 1000 };

/** Why a text is not read. */
export class JsonError extends Error {
  override readonly name = 'JsonError';
  /** `syntax`: it is not JSON; `limit`: it is, beyond a bound; `value`: a value cannot be one of Salt's. */
  readonly reason: 'syntax' | 'limit' | 'value';

  constructor(reason: JsonError['reason'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** Reads JSON in one go. @throws JsonError */
export function readJson(text: string, options: JsonOptions = {}): JsonOf<never> {
  const steps = readJsonInSteps(text, options);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** Reads JSON, each step within {@link maxReadingStep}. @throws JsonError */
export function readJsonInSteps<T = never>(
  text: string,
  options: JsonOptions<T> = {},
): Generator<ReadingStep, JsonOf<T>, void> {
  return new JsonReader(text, options).steps();
}

interface OpenList<T> {
  readonly list: JsonOf<T>[];
}

interface OpenMap<T> {
  readonly map: JsonMap<T>;
  key: string;
}

/** Characters of a string that are read in one go. */
const maxPart = 65_536;

/** Characters of a number. */
const maxNumber = 1000;

const numberForm = /^-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;
const literals: ReadonlyMap<string, boolean | null> = new Map<string, boolean | null>([
  ['true', true],
  ['false', false],
  ['null', null],
]);

/** Has a stack of its own, so that it can stop anywhere, and nesting cannot exhaust the engine's. */
class JsonReader<T> {
  readonly #text: string;
  readonly #maxValues: number;
  readonly #maxDepth: number;
  readonly #isStrict: boolean;
  readonly #replaceMap: JsonOptions<T>['replaceMap'];
  readonly #open: (OpenList<T> | OpenMap<T>)[] = [];
  #at = 0;
  #values = 0;
  #stepAt = 0;
  #stepValues = 0;

  constructor(text: string, options: JsonOptions<T>) {
    this.#text = text;
    this.#maxValues = options.maxValues ?? Number.POSITIVE_INFINITY;
    this.#maxDepth = options.maxDepth ?? 256;
    this.#isStrict = options.isStrict ?? false;
    this.#replaceMap = options.replaceMap;
  }

  *steps(): Generator<ReadingStep, JsonOf<T>, void> {
    for (;;) {
      yield* this.#space();
      let value = yield* this.#begin();
      while (value !== undefined) {
        const open = this.#open.at(-1);
        if (open === undefined) {
          yield* this.#space();
          if (this.#at < this.#text.length) throw this.#syntax();
          yield this.#step();
          return value;
        }
        if ('list' in open) open.list.push(value);
        else open.map[open.key] = value;
        value = yield* this.#next(open);
      }
    }
  }

  /** A value that is complete with its first token; `undefined`: a list or a map was opened. */
  *#begin(): Generator<ReadingStep, JsonOf<T> | undefined, void> {
    this.#values += 1;
    // protection: counted-values
    if (this.#values > this.#maxValues) throw this.#tooMany();
    // protection: counted-steps
    if (this.#isStepOver()) yield this.#step();
    switch (this.#text[this.#at]) {
      case '"':
        return yield* this.#string();
      case '[':
        return yield* this.#openList();
      case '{':
        return yield* this.#openMap();
      default:
        return this.#scalar();
    }
  }

  *#openList(): Generator<ReadingStep, JsonOf<T> | undefined, void> {
    this.#at += 1;
    yield* this.#space();
    if (this.#takes(']')) return [];
    this.#push({ list: [] });
    return undefined;
  }

  *#openMap(): Generator<ReadingStep, JsonOf<T> | undefined, void> {
    this.#at += 1;
    const map: JsonMap<T> = Object.create(null);
    yield* this.#space();
    if (this.#takes('}')) return this.#completed(map);
    this.#push({ map, key: yield* this.#key() });
    return undefined;
  }

  /** Behind a member: the list or map that it ends; `undefined`: another member follows. */
  *#next(open: OpenList<T> | OpenMap<T>): Generator<ReadingStep, JsonOf<T> | undefined, void> {
    yield* this.#space();
    if (this.#takes(',')) {
      if ('map' in open) {
        yield* this.#space();
        open.key = yield* this.#key();
      }
      return undefined;
    }
    if (!this.#takes('list' in open ? ']' : '}')) throw this.#syntax();
    this.#open.pop();
    return 'list' in open ? open.list : this.#completed(open.map);
  }

  *#key(): Generator<ReadingStep, string, void> {
    if (this.#text[this.#at] !== '"') throw this.#syntax();
    const key = yield* this.#string();
    yield* this.#space();
    if (!this.#takes(':')) throw this.#syntax();
    return key;
  }

  #completed(map: JsonMap<T>): JsonOf<T> {
    return this.#replaceMap === undefined ? map : this.#replaceMap(map);
  }

  #push(open: OpenList<T> | OpenMap<T>): void {
    this.#open.push(open);
    if (this.#open.length > this.#maxDepth) {
      throw new JsonError('limit', `more than ${this.#maxDepth} levels`);
    }
  }

  #scalar(): JsonOf<never> {
    const start = this.#at;
    while (this.#at - start <= maxNumber && /[-+.\w]/.test(this.#text[this.#at] ?? '')) {
      this.#at += 1;
    }
    const token = this.#text.slice(start, this.#at);
    const word = literals.get(token);
    if (word !== undefined) return word;
    const [form, fraction, exponent] = numberForm.exec(token) ?? [];
    if (form === undefined) throw this.#syntax();
    const isInteger = fraction === undefined && exponent === undefined;
    return isInteger ? this.#integer(form) : this.#float(Number(form));
  }

  #integer(text: string): number | bigint {
    const number = Number(text);
    if (Number.isSafeInteger(number)) return number;
    const value = BigInt(text);
    if (this.#isStrict && (value < -(2n ** 63n) || value >= 2n ** 64n)) {
      throw new JsonError('value', 'an integer beyond 64 bits');
    }
    return value;
  }

  #float(value: number): number {
    if (this.#isStrict && !Number.isFinite(value)) {
      throw new JsonError('value', 'a number beyond what a float can be');
    }
    return value;
  }

  *#string(): Generator<ReadingStep, string, void> {
    const start = this.#at + 1;
    const end = yield* this.#endOfString(start);
    const parts: string[] = [];
    const isLong = end - start > maxPart;
    let hasEscape = false;
    let half = '';
    for (let at = start; at < end; ) {
      if (parts.length > 0) yield this.#step();
      const next = end - at <= maxPart ? end : partEnd(this.#text, at, at + maxPart);
      const source = this.#text.slice(at, next);
      hasEscape ||= source.includes('\\');
      const part = this.#part(source);
      parts.push(part);
      // Nothing but an escape gives half a character, or cutting one.
      const mayHaveHalf = this.#isStrict && (isLong || source.includes('\\u'));
      if (mayHaveHalf) half = this.#halfAtEnd(half + part, next === end);
      at = next;
      this.#at = at;
    }
    this.#at = end + 1;
    if (!isLong) return parts[0] ?? '';
    // Most of the text: keeping all of it costs less than another copy.
    const isMost = (end - start) * 2 > this.#text.length;
    return isMost && !hasEscape ? this.#text.slice(start, end) : parts.join('');
  }

  /** @returns half a character that the next part may complete */
  #halfAtEnd(part: string, isLast: boolean): string {
    const last = part.at(-1) ?? '';
    const half = !isLast && /^[\ud800-\udbff]$/.test(last) ? last : '';
    if (/\p{Cs}/u.test(part.slice(0, part.length - half.length))) {
      throw new JsonError('value', 'text that is not Unicode');
    }
    return half;
  }

  *#endOfString(start: number): Generator<ReadingStep, number, void> {
    let looked = 0;
    for (let end = this.#text.indexOf('"', start); end !== -1; ) {
      let first = end;
      for (looked += 1; first > start && this.#text[first - 1] === '\\'; looked += 1) {
        first -= 1;
        if (looked < maxPart) continue;
        yield { characters: looked, values: 0 };
        looked = 0;
      }
      if ((end - first) % 2 === 0) return end;
      end = this.#text.indexOf('"', end + 1);
    }
    throw this.#syntax();
  }

  /** The engine's own reader copies, so that no short string keeps the whole text in memory. */
  #part(source: string): string {
    try {
      return String(JSON.parse(`"${source}"`));
    } catch (cause) {
      throw this.#syntax({ cause });
    }
  }

  *#space(): Generator<ReadingStep, void, void> {
    for (;;) {
      switch (this.#text.charCodeAt(this.#at)) {
        case 0x20:
        case 0x09:
        case 0x0a:
        case 0x0d:
          this.#at += 1;
          if (this.#isStepOver()) yield this.#step();
          break;
        default:
          return;
      }
    }
  }

  #takes(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  #isStepOver(): boolean {
    const characters = this.#at - this.#stepAt;
    const values = this.#values - this.#stepValues;
    return characters >= maxPart || values >= maxReadingStep.values;
  }

  #step(): ReadingStep {
    const step = { characters: this.#at - this.#stepAt, values: this.#values - this.#stepValues };
    this.#stepAt = this.#at;
    this.#stepValues = this.#values;
    return step;
  }

  #tooMany(): JsonError {
    return new JsonError('limit', `more than ${this.#maxValues} values`);
  }

  #syntax(options?: ErrorOptions): JsonError {
    return new JsonError('syntax', `not JSON, see character ${this.#at + 1}`, options);
  }
}

/** Where a part of a string may end at the latest before `limit`: not within an escape. */
function partEnd(text: string, start: number, limit: number): number {
  for (let at = limit - 1; at >= limit - 5; at -= 1) {
    if (text[at] !== '\\') continue;
    let first = at;
    while (first > start && text[first - 1] === '\\') first -= 1;
    const isEscape = (at - first) % 2 === 0;
    const length = text[at + 1] === 'u' ? 6 : 2;
    return isEscape && at + length > limit ? at : limit;
  }
  return limit;
}

/** A number that may be an integer beyond 2^53; it may as well be a part of a string. */
const longNumber = /(?:^|[-:,[\s])\d{16}/;

/** Reads JSON from a source that is trusted: `bigint` beyond 2^53. @throws SyntaxError, JsonError */
export function parseJson(text: string): JsonOf<never> {
  return longNumber.test(text) ? readJson(text) : JSON.parse(text);
}

/** What a text says as JSON, with numbers as `JSON.parse` reads them; `undefined`: it is none. */
export function tryParseJson(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
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

/** Tells {@link ReadingStep} of every step that a scheduler ran, to whoever subscribes. */
export const readingSteps: Channel = channel('saltbridge.reading.step');

interface ScheduledWork {
  /** Whether it is done. */
  readonly advance: () => boolean;
}

/**
 * Does long work in steps: one for each turn of the event loop, however much work there is, and each
 * work in its turn. New work does its first two at once: most is done with them.
 */
export class StepScheduler {
  readonly #waiting: ScheduledWork[] = [];
  #isScheduled = false;

  /** @throws what the work throws */
  run<T>(steps: Generator<ReadingStep, T, void>): Promise<T> {
    return new Promise((resolve, reject) => {
      const advance = (): boolean => {
        try {
          const { done, value } = steps.next();
          if (done === true) resolve(value);
          else readingSteps.publish(value);
          return done === true;
        } catch (error) {
          reject(error);
          return true;
        }
      };
      if (advance() || advance()) return;
      this.#waiting.push({ advance });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.length === 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      const next = this.#waiting.shift();
      if (next !== undefined && !next.advance()) this.#waiting.push(next);
      this.#schedule();
    });
  }
}

/** Bytes that are decoded in one go, at least: what comes from a socket at once may be as much. */
const maxPartBytes = 65_536;

/** The text of bytes in UTF-8, decoded in steps; `undefined`: they are something else. */
export function* textInSteps(
  chunks: readonly Uint8Array[],
): Generator<ReadingStep, string | undefined, void> {
  const parts: string[] = [];
  let waiting: Uint8Array[] = [];
  let bytes = 0;
  for (const [index, chunk] of chunks.entries()) {
    waiting.push(chunk);
    bytes += chunk.byteLength;
    const isLast = index === chunks.length - 1;
    if (!isLast && bytes < maxPartBytes) continue;
    const part = waiting.length === 1 ? chunk : Buffer.concat(waiting);
    const end = isLast ? part.byteLength : endOfCharacters(part);
    const whole = part.subarray(0, end);
    if (!isUtf8(whole)) return undefined;
    parts.push(Buffer.from(whole.buffer, whole.byteOffset, whole.byteLength).toString('utf8'));
    waiting = [part.subarray(end)];
    bytes = part.byteLength - end;
    if (!isLast) yield { characters: end, values: 0 };
  }
  return parts.length === 1 ? parts[0] : parts.join('');
}

/** Where the last character ends that is complete. */
function endOfCharacters(bytes: Uint8Array): number {
  for (let back = 1; back <= 3; back += 1) {
    const byte = bytes.at(-back) ?? 0;
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return length > back ? bytes.byteLength - back : bytes.byteLength;
  }
  return bytes.byteLength;
}
