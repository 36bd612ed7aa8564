import { maxReadingStep, type ReadingStep } from './step-scheduler.ts';

/** Members of a map, in the order in which they are written. */
interface JsonMembers {
  readonly members: readonly (readonly [key: string, value: unknown])[];
}

/** How values are written as JSON. */
export interface JsonForm {
  /** The text of a value; in steps it is the same. */
  readonly write: (value: unknown) => string;
  /** What a list, a map or a text is written as; `undefined`: in one go, as `write` does. */
  readonly open: (value: unknown) => string | readonly unknown[] | JsonMembers | undefined;
  /** Between two items. */
  readonly comma: string;
  /** Behind a key. */
  readonly colon: string;
}

/** Of what is written in one go. */
const maxSmall: ReadingStep = { characters: 16_384, values: 500 };

/** Output of a step: what is written in one go may come on top, each character as six. */
const stepOutput = 32_768;

/** Whether a value is written in one go; looks at no more of it than that takes. */
export function isSmallJson(value: unknown): boolean {
  return valuesOfSmall(value) !== undefined;
}

/** Writes JSON, each step within {@link maxReadingStep}. @param take - gets the text piece by piece */
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

/** Not within a character of two units: half of one is written as an escape. */
function partEnd(text: string, start: number): number {
  const end = start + maxSmall.characters;
  if (end >= text.length) return text.length;
  const isHalf = (text.charCodeAt(end - 1) & 0xfc00) === 0xd800;
  return isHalf ? end - 1 : end;
}

/** How many values there are in one that is small. */
function valuesOfSmall(value: unknown): number | undefined {
  if (value === null || (typeof value !== 'object' && typeof value !== 'string')) return 1;
  const left = { ...maxSmall };
  return fits(value, left) ? maxSmall.values - left.values : undefined;
}

/** Takes what a value has off what may be left. */
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
    for (const [key, item] of Object.entries(value)) {
      left.characters -= key.length;
      if (!fits(item, left)) return false;
    }
  }
  return left.characters >= 0;
}
