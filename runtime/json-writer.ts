import { maxReadingStep, type ReadingStep } from './step-scheduler.ts';

/** Members of a map, in the order in which they are written. */
interface JsonMembers {
  readonly members: readonly (readonly [key: string, value: unknown])[];
}

/** Format for writing values as JSON. */
export interface JsonForm {
  /** Returns the text of a value. Writing in steps produces the same text. */
  readonly write: (value: unknown) => string;
  /**
   * Converts a large value to a list, map or string that can be written in steps. Returns
   * `undefined` if the value must be written in one step with `write`.
   */
  readonly open: (value: unknown) => string | readonly unknown[] | JsonMembers | undefined;
  /** Separator between two items of a list or map. */
  readonly comma: string;
  /** Separator between a key and its value. */
  readonly colon: string;
}

/** Maximum size of a value that is written in one step. */
const maxSmall: ReadingStep = { characters: 16_384, values: 500 };

/**
 * Number of characters after which a step ends. A step can write more, because it writes short
 * values whole, and JSON needs up to six characters for one character of a string.
 */
const stepOutput = 32_768;

/**
 * Whether a value is small enough to be written in one step. Inspects only as much of the value as
 * necessary.
 */
export function isSmallJson(value: unknown): boolean {
  return valuesOfSmall(value) !== undefined;
}

/**
 * Writes JSON in steps, each within {@link maxReadingStep}.
 * @param take - called with each piece of the text
 */
export function writeJsonInSteps(
  value: unknown,
  form: JsonForm,
  take: (piece: string) => void,
): Generator<ReadingStep, void, void> {
  return new JsonWriter(form, take).steps(value);
}

class JsonWriter {
  readonly #form: JsonForm;
  readonly #take: (piece: string) => void;
  #pieces: string[] = [];
  #characters = 0;
  #values = 0;

  constructor(form: JsonForm, take: (piece: string) => void) {
    this.#form = form;
    this.#take = take;
  }

  *steps(value: unknown): Generator<ReadingStep, void, void> {
    yield* this.#value(value);
    yield this.#step();
  }

  *#value(value: unknown): Generator<ReadingStep, void, void> {
    const values = valuesOfSmall(value);
    const opened = values === undefined ? this.#form.open(value) : undefined;
    this.#values += values ?? 1;
    if (opened === undefined) this.#put(this.#form.write(value));
    else if (typeof opened === 'string') yield* this.#text(opened);
    else if ('members' in opened) yield* this.#members(opened);
    else yield* this.#items(opened);
    if (this.#isStepOver()) yield this.#step();
  }

  *#items(items: readonly unknown[]): Generator<ReadingStep, void, void> {
    let before = '[';
    for (const item of items) {
      this.#put(before);
      yield* this.#value(item);
      before = this.#form.comma;
    }
    this.#put(']');
  }

  *#members({ members }: JsonMembers): Generator<ReadingStep, void, void> {
    let before = '{';
    for (const [key, item] of members) {
      this.#put(before);
      yield* this.#text(key);
      this.#put(this.#form.colon);
      yield* this.#value(item);
      before = this.#form.comma;
    }
    this.#put('}');
  }

  *#text(text: string): Generator<ReadingStep, void, void> {
    this.#put('"');
    for (let at = 0; at < text.length; ) {
      const end = partEnd(text, at);
      this.#put(JSON.stringify(text.slice(at, end)).slice(1, -1));
      if (this.#isStepOver()) yield this.#step();
      at = end;
    }
    this.#put('"');
  }

  #put(piece: string): void {
    this.#pieces.push(piece);
    this.#characters += piece.length;
  }

  #isStepOver(): boolean {
    return this.#characters >= stepOutput || this.#values >= maxReadingStep.values / 2;
  }

  #step(): ReadingStep {
    const step = { characters: this.#characters, values: this.#values };
    this.#take(this.#pieces.join(''));
    this.#pieces = [];
    this.#characters = 0;
    this.#values = 0;
    return step;
  }
}

/**
 * Returns the end of the next part of a string. The part does not end inside a surrogate pair,
 * because `JSON.stringify` would write each half as an escape.
 */
function partEnd(text: string, start: number): number {
  const end = start + maxSmall.characters;
  if (end >= text.length) return text.length;
  const isHalf = (text.charCodeAt(end - 1) & 0xfc00) === 0xd800;
  return isHalf ? end - 1 : end;
}

/**
 * Returns the number of values in a value, including itself and all nested ones. Returns
 * `undefined` if the value is too large to be written in one step.
 */
function valuesOfSmall(value: unknown): number | undefined {
  if (value === null || (typeof value !== 'object' && typeof value !== 'string')) return 1;
  const left = { ...maxSmall };
  return fits(value, left) ? maxSmall.values - left.values : undefined;
}

/**
 * Subtracts the size of a value from the remaining limits in `left`. Returns `false` if a limit is
 * exceeded.
 */
function fits(value: unknown, left: { characters: number; values: number }): boolean {
  left.values -= 1;
  if (left.values < 0) return false;
  if (typeof value === 'string') left.characters -= value.length;
  else if (value instanceof Uint8Array) left.characters -= value.byteLength;
  else if (value instanceof Map) {
    for (const pair of value) if (!pair.every((part) => fits(part, left))) return false;
  } else if (Array.isArray(value)) {
    for (const item of value) if (!fits(item, left)) return false;
  } else if (typeof value === 'object' && value !== null) {
    const keys = Object.keys(value);
    // The values of a wide map are not read.
    if (keys.length > left.values) return false;
    for (const key of keys) {
      left.characters -= key.length;
      if (!fits(Reflect.get(value, key), left)) return false;
    }
  }
  return left.characters >= 0;
}
