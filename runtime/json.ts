/** Reads and writes JSON without loss of precision. Integers beyond 2^53 become `bigint`. */

/**
 * A JSON value. `T` is the type of values that replace some numbers and maps. An integer beyond
 * 2^53 is a `bigint`.
 */
export type JsonOf<T> = null | boolean | number | bigint | string | T | JsonOf<T>[] | JsonMap<T>;

/** A JSON map. Maps that {@link readJsonInSteps} returns have no prototype. */
export interface JsonMap<T> {
  [key: string]: JsonOf<T>;
}

/** A JSON value. An integer beyond 2^53 is a `bigint`. */
export type JsonValue =
  | bigint
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** Error for a text that cannot be read as JSON. */
export class JsonError extends Error {
  override readonly name = 'JsonError';
  /**
   * `syntax`: not JSON; `limit`: a limit is exceeded; `value`: a value that Salt cannot represent.
   */
  readonly reason: 'syntax' | 'limit' | 'value';

  constructor(reason: JsonError['reason'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** Members of `JSON` in Node.js 22 that TypeScript does not declare. */
interface ExactJson {
  parse<T>(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): JsonOf<T>;
  rawJSON(text: string): unknown;
}

const exactJson = JSON as unknown as ExactJson; // declared above

/**
 * Maximum length of an integer beyond 2^53, in characters. The time that `BigInt` takes grows with
 * the square of the length.
 */
const maxDigits = 1000;

/**
 * Converts a number token of JSON to a number, or to a `bigint` if necessary.
 * @throws JsonError
 */
export function exactNumber(token: string): number | bigint {
  const number = Number(token);
  if (Number.isSafeInteger(number) || /[.eE]/.test(token)) return number;
  if (token.length > maxDigits) throw new JsonError('syntax', `more than ${maxDigits} digits`);
  return BigInt(token);
}

/**
 * Matches a text that may contain an integer beyond 2^53. False matches are possible, for example
 * digits in a string.
 */
const longNumber = /(?:^|[-:,[\s])\d{16}/;

/**
 * Matches a text that may contain a float without a fraction, such as `1.0` or `1e3`. False matches
 * are possible, for example in a string.
 */
const mayHaveFloat = /\d(?:\.\d*0|[eE])/;

/**
 * Reads JSON from a trusted source.
 * @throws SyntaxError, JsonError
 */
export function parseJson(text: string): JsonOf<never> {
  if (!longNumber.test(text)) return JSON.parse(text);
  return reviveNumbers<never>(text, exactNumber);
}

/**
 * Reads JSON, and converts the text of each number with `read`. The results must equal those of
 * `JSON.parse`, except for integers beyond 2^53 and floats without a fraction.
 * @throws SyntaxError, and the errors of `read`
 */
export function parseJsonNumbers<T>(
  text: string,
  read: (token: string) => number | bigint | T,
): JsonOf<T> {
  if (!longNumber.test(text) && !mayHaveFloat.test(text)) return JSON.parse(text);
  return reviveNumbers(text, read);
}

function reviveNumbers<T>(text: string, read: (token: string) => number | bigint | T): JsonOf<T> {
  return exactJson.parse(text, (_, value, { source }) =>
    typeof value === 'number' && source !== undefined ? read(source) : value,
  );
}

/** Maximum nesting of lists and maps in a text for {@link tryParseJson}. */
const maxLevels = 256;

/**
 * Parses JSON. Numbers have the precision of `JSON.parse`.
 * @returns `undefined` if the text is not JSON, or is nested too deeply
 */
export function tryParseJson(text: string): JsonValue | undefined {
  if (isDeeperThan(maxLevels, text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const quotationMark = 34;
/** Number of levels that a UTF-16 code unit opens or closes in a JSON text. */
const levelsOf = new Int8Array(65_536);
for (const opening of '[{') levelsOf[opening.charCodeAt(0)] = 1;
for (const closing of ']}') levelsOf[closing.charCodeAt(0)] = -1;

/**
 * Whether lists and maps in a JSON text are nested more deeply. `JSON.parse` needs ten times as
 * long for a bracket as for a character of a string.
 */
function isDeeperThan(levels: number, text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit === quotationMark) at = endOfString(text, at);
    else depth += levelsOf[unit] ?? 0;
    if (depth > levels) return true;
  }
  return false;
}

/** Returns the position of the quotation mark that ends a string in a JSON text. */
function endOfString(text: string, begin: number): number {
  let end = begin;
  let backslashes: number;
  do {
    end = text.indexOf('"', end + 1);
    backslashes = 0;
    while (end > 0 && text[end - 1 - backslashes] === '\\') backslashes += 1;
  } while (backslashes % 2 === 1);
  return end === -1 ? text.length : end;
}

/** Returns an object that `JSON.stringify` writes as this exact number. */
export function rawNumber(number: string | bigint): unknown {
  return exactJson.rawJSON(String(number));
}

/**
 * Writes a value like `JSON.stringify`, and a `bigint` as a number.
 * @param indent - spaces per level. Default: no line breaks
 * @throws TypeError for a value that contains itself
 */
export function writeJson(value: unknown, indent?: number): string {
  try {
    return JSON.stringify(value, null, indent);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // `JSON.stringify` throws for a `bigint`, and is much slower with a replacer function.
    const replace = (_: string, item: unknown): unknown =>
      typeof item === 'bigint' ? rawNumber(item) : item;
    return JSON.stringify(value, replace, indent);
  }
}
