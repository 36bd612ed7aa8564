/** Reads JSON from clients within limits. Long texts are read in steps. */

import { Tokenizer, TokenParser, TokenType } from '@streamparser/json';
import {
  exactNumber,
  JsonError,
  type JsonMap,
  type JsonOf,
  parseJson,
  parseJsonNumbers,
} from './json.ts';
import { jsonLimits } from './json-limits.ts';
import { maxReadingStep, type ReadingStep } from './step-scheduler.ts';

/** Limits for reading a JSON text. */
export interface JsonOptions<T = never> {
  /** Maximum number of values. Lists and maps count as values, keys do not. Default: unlimited. */
  readonly maxValues?: number;
  /** Maximum nesting of lists and maps. Default: 256. */
  readonly maxDepth?: number;
  /**
   * Whether values are restricted to those that Salt can represent. An integer beyond 64 bits
   * becomes a string of decimal digits, as Salt sends it. Infinite numbers and strings that are not
   * valid Unicode are rejected. Default: `false`.
   */
  readonly isStrict?: boolean;
  /**
   * Converts a number token. Default: a number, or a `bigint` for an integer beyond 2^53.
   */
  readonly readNumber?: (token: string) => number | bigint | T;
  /**
   * Called with each map after all its members were read. The result of this function replaces the
   * map. Default: maps are unchanged.
   */
  readonly replaceMap?: (map: JsonMap<T>) => JsonOf<T>;
}

/** Maximum length of a text that `JSON.parse` reads in one step, in characters. */
const maxWhole = 16_384;

/**
 * Number of characters after which a step of the reading ends. A step also ends after
 * {@link stepValues} values.
 */
const stepCharacters = 32_768;

/**
 * Number of values after which a step ends. A step also ends after {@link stepCharacters}
 * characters.
 */
const stepValues = maxReadingStep.values / 2;

/**
 * Number of characters after which it is checked whether the step must end. A step can exceed
 * {@link stepValues} by less than this number, because each character begins at most one value.
 */
const sliceCharacters = maxReadingStep.values / 2;

/**
 * Maximum number of members of one map. The JavaScript engine copies, lists or enlarges a whole map
 * in one step, which takes about a microsecond for each member.
 */
const { total: maxMembers = Infinity } = jsonLimits.mapMembers;

/**
 * Reads JSON in one step.
 * @throws JsonError
 */
export function readJson<T = never>(text: string, options: JsonOptions<T> = {}): JsonOf<T> {
  return new JsonChecker(options).read(text);
}

/**
 * Reads JSON in steps, each within `maxReadingStep`.
 * @throws JsonError
 */
export function* readJsonInSteps<T = never>(
  text: string,
  options: JsonOptions<T> = {},
): Generator<ReadingStep, JsonOf<T>, void> {
  if (text.length > maxWhole) return yield* new SlicedJson(options).read(text);
  const value = new JsonChecker(options).read(text);
  yield { characters: text.length, values: 0 };
  return value;
}

/**
 * Returns an integer that fits into 64 bits, signed or unsigned, unchanged. A larger integer
 * becomes a string of decimal digits.
 */
export function integerOf64Bits(value: bigint): bigint | string {
  return value < -(2n ** 63n) || value >= 2n ** 64n ? String(value) : value;
}

/**
 * Checks values against the limits in the options, and converts maps with the option `replaceMap`.
 */
class JsonChecker<T> {
  /** Converts a number token. */
  readonly readNumber: (token: string) => number | bigint | T;
  readonly #maxValues: number;
  readonly #maxDepth: number;
  readonly #isStrict: boolean;
  readonly #replaceMap: (map: JsonMap<T>) => JsonOf<T>;
  #values = 0;

  constructor(options: JsonOptions<T>) {
    const { maxValues, maxDepth = 256, isStrict = false, replaceMap = (map) => map } = options;
    this.#maxValues = maxValues ?? Number.POSITIVE_INFINITY;
    this.#maxDepth = maxDepth;
    this.#isStrict = isStrict;
    this.readNumber = options.readNumber ?? exactNumber;
    this.#replaceMap = replaceMap;
  }

  /** Parses a text in one step. */
  read(text: string): JsonOf<T> {
    return this.#complete(this.#parse(text), 0);
  }

  #parse(text: string): JsonOf<T> {
    try {
      return this.readNumber === exactNumber
        ? parseJson(text)
        : parseJsonNumbers(text, this.readNumber);
    } catch (cause) {
      throw cause instanceof JsonError ? cause : new JsonError('syntax', 'not JSON', { cause });
    }
  }

  /**
   * Counts a value and checks the limits.
   * @param depth - number of lists and maps that enclose the value
   */
  enter(depth: number): void {
    this.#values += 1;
    if (this.#values > this.#maxValues) {
      throw new JsonError('limit', `more than ${this.#maxValues} values`);
    }
    if (depth > this.#maxDepth) throw new JsonError('limit', `more than ${this.#maxDepth} levels`);
  }

  /** Reduces the number of values by one, because a counted string turned out to be a key. */
  uncountKey(): void {
    this.#values -= 1;
  }

  checkText(text: string): void {
    if (this.#isStrict && !text.isWellFormed()) {
      throw new JsonError('value', 'text that is not valid Unicode');
    }
  }

  checkNumber(value: number | bigint | T): void {
    if (!this.#isStrict || typeof value !== 'number' || Number.isFinite(value)) return;
    throw new JsonError('value', 'a number that exceeds the range of floats');
  }

  completeNumber(value: number | bigint | T): number | bigint | string | T {
    return this.#isStrict && typeof value === 'bigint' ? integerOf64Bits(value) : value;
  }

  replace(map: JsonMap<T>): JsonOf<T> {
    return this.#replaceMap(map);
  }

  /** Checks and converts a value that `JSON.parse` returned. */
  #complete(value: JsonOf<T>, depth: number): JsonOf<T> {
    this.enter(depth);
    if (typeof value === 'string') this.checkText(value);
    else if (typeof value === 'number' || typeof value === 'bigint') {
      this.checkNumber(value);
      return this.completeNumber(value);
    } else if (Array.isArray(value)) return value.map((item) => this.#complete(item, depth + 1));
    else if (isMap(value)) {
      const map: JsonMap<T> = Object.create(null);
      for (const [key, item] of Object.entries(value)) {
        this.checkText(key);
        map[key] = this.#complete(item, depth + 1);
      }
      return this.replace(map);
    }
    return value;
  }
}

/** Whether a value is a map, and not a number that `readNumber` converted to an object. */
function isMap<T>(value: JsonOf<T>): value is JsonMap<T> {
  return (
    typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
  );
}

type Token = Parameters<Tokenizer['onToken']>[0];
type Element = Parameters<TokenParser['onValue']>[0];

/** Reads a JSON text with a streaming parser, one slice after the other. */
class SlicedJson<T> extends Tokenizer {
  readonly #checker: JsonChecker<T>;
  readonly #parser = new TokenParser();
  #depth = 0;
  /** Number of members of the open map at each depth. */
  readonly #members: number[] = [];
  #values = 0;
  /** Exact value of the last number that the tokenizer has read. */
  #number: number | bigint | T = 0;
  #root: JsonOf<T> = null;

  constructor(options: JsonOptions<T>) {
    // Without buffers, the tokenizer would collect long tokens as lists of single characters.
    super({ stringBufferSize: 65_536, numberBufferSize: 64 });
    this.#checker = new JsonChecker(options);
    this.#parser.onValue = (element) => this.#complete(element);
  }

  *read(text: string): Generator<ReadingStep, JsonOf<T>, void> {
    let characters = 0;
    for (let at = 0; at < text.length; at += sliceCharacters) {
      const slice = text.slice(at, at + sliceCharacters);
      this.#feed(() => this.write(slice));
      characters += slice.length;
      if (characters >= stepCharacters || this.#values >= stepValues) {
        yield { characters, values: this.#values };
        characters = 0;
        this.#values = 0;
      }
    }
    this.#feed(() => this.end());
    if (!this.#parser.isEnded) throw new JsonError('syntax', 'not JSON: the text ends too early');
    yield { characters, values: this.#values };
    return this.#root;
  }

  override onToken(token: Token): void {
    this.#check(token);
    this.#parser.write(token);
  }

  protected override parseNumber(token: string): number {
    this.#number = this.#checker.readNumber(token);
    return Number(token);
  }

  #feed(work: () => void): void {
    try {
      work();
    } catch (cause) {
      throw cause instanceof JsonError ? cause : new JsonError('syntax', 'not JSON', { cause });
    }
  }

  #check({ token, value }: Token): void {
    switch (token) {
      case TokenType.RIGHT_BRACE:
      case TokenType.RIGHT_BRACKET:
        this.#depth -= 1;
        return;
      case TokenType.COMMA:
        return;
      case TokenType.COLON:
        this.#checker.uncountKey();
        this.#countMember();
        return;
      case TokenType.STRING:
        this.#checker.checkText(String(value));
        break;
      case TokenType.NUMBER:
        this.#checker.checkNumber(this.#number);
        break;
    }
    this.#values += 1;
    this.#checker.enter(this.#depth);
    if (token === TokenType.LEFT_BRACE || token === TokenType.LEFT_BRACKET) {
      this.#depth += 1;
      this.#members[this.#depth] = 0;
    }
  }

  #countMember(): void {
    const count = (this.#members[this.#depth] ?? 0) + 1;
    this.#members[this.#depth] = count;
    if (count > maxMembers) {
      throw new JsonError('limit', `more than ${maxMembers} members of one map; divide the map`);
    }
  }

  #complete({ value, key, parent }: Element): void {
    const complete = this.#completed(value);
    if (parent === undefined) this.#root = complete;
    // `defineProperty` is used because an assignment to the key `__proto__` would set the
    // prototype.
    else if (complete !== value && key !== undefined) {
      const attributes = { writable: true, enumerable: true, configurable: true };
      Reflect.defineProperty(parent, key, { value: complete, ...attributes });
    }
  }

  #completed(value: Element['value']): JsonOf<T> {
    if (typeof value === 'number') return this.#checker.completeNumber(this.#number);
    if (typeof value !== 'object' || value === null) return value ?? null;
    // The members of this value were already converted, because inner values are complete first.
    const read = value as JsonOf<T>[] | JsonMap<T>;
    return Array.isArray(read) ? read : this.#checker.replace(Object.setPrototypeOf(read, null));
  }
}
