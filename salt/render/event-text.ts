import { isPlainYamlText } from '#master';
import type { WireValue } from '#minion-protocol';
import { Dict, Float, isText, type PlainData, printedText, textOf, type Value } from '#template';
import { isList } from './pillar-data.ts';

// Event values in text that is rendered and then parsed as YAML. Text is rendered as a placeholder,
// and substituted after parsing: it stays a value, or a part of one. In reactor files this applies to
// every text, so that whoever uses it can tell it from what the operator wrote; only numbers, dates,
// booleans and null are not replaced, because YAML gives them their type. In other files words that
// mean nothing to YAML are not replaced either, because templates compare what they have printed.

/** Brackets of a mark: printable for YAML, and in no alphabet. */
const [open, close] = ['\uE000', '\uE001'];

/** @param secret letters and digits: nobody can foresee it, so no event has marks of its own */
function markFor(place: number, secret: string): string {
  return `${open}${secret}.${place}${close}`;
}

/** The text of one rendering, of which {@link markFor} stands for parts. */
export class EventText {
  readonly #texts: readonly string[];
  readonly #marks: RegExp;

  /** @param texts by place */
  constructor(secret: string, texts: readonly string[]) {
    this.#texts = texts;
    this.#marks = new RegExp(`${open}${secret}\\.(\\d+)${close}`, 'gu');
  }

  /** Whether a text has some that was marked. */
  isIn(text: string): boolean {
    return this.restore(text) !== text;
  }

  /** A text with what was marked in its place. */
  restore(text: string): string {
    if (!text.includes(open)) return text;
    // A mark can only stand in the texts of those that were made after it.
    return text.replace(this.#marks, (_mark, place) => this.restore(this.#texts[place] ?? ''));
  }

  /** The same for all texts in it, the keys of maps among them. */
  restoreAll(data: PlainData): PlainData {
    if (typeof data === 'string') return this.restore(data);
    if (isList(data)) return data.map((item) => this.restoreAll(item));
    if (!(data instanceof Map)) return data;
    return new Map(
      Array.from(data, ([key, value]) => [this.restoreAll(key), this.restoreAll(value)]),
    );
  }
}

/** Means nothing to YAML wherever it stands. */
const inert = /^(?![-.]{1,3}$)[A-Za-z0-9_/.+~-][A-Za-z0-9_/.+~:-]*$/;

/** What tells the operator's own words from those of an event. */
export interface Origins {
  readonly event: WireValue;
  /** The texts of the files, as they were read until now. */
  readonly files: () => Iterable<string>;
  /** Whether words that mean nothing to YAML are marked too. */
  readonly marksWords: boolean;
}

/** Prints the values of one rendering. */
export class EventPrinter {
  readonly #texts: string[] = [];
  readonly #origins: Origins;
  readonly #secret: string;

  constructor(secret: string, origins: Origins) {
    this.#secret = secret;
    this.#origins = origins;
  }

  /** What marks stand for, by place. */
  get texts(): readonly string[] {
    return this.#texts;
  }

  /** What stands in the rendered text for a value. */
  print(value: Value): string {
    if (isText(value)) return this.#marked(textOf(value));
    if (isContainer(value)) {
      const isInertAll = this.#isInert(value);
      if (isInertAll && !(this.#origins.marksWords && hasText(value))) return printedText(value);
      return this.#written(value, isInertAll);
    }
    return typeof value === 'object' && !(value instanceof Float)
      ? this.#marked(printedText(value))
      : printedText(value);
  }

  #marked(text: string): string {
    if (text === '' || this.#isLeft(text) || this.#isOperators(text)) return text;
    this.#texts.push(text);
    return markFor(this.#texts.length - 1, this.#secret);
  }

  /** Whether it is printed as it is, whoever wrote it. */
  #isLeft(text: string): boolean {
    return isInert(text) && !(this.#origins.marksWords && isPlainYamlText(text));
  }

  /** Whether it stands so in a file, and nowhere in the event. */
  #isOperators(text: string): boolean {
    const { event, files } = this.#origins;
    const isWritten = [...files()].some((file) => file.includes(text));
    return isWritten && !says(event, text);
  }

  #isInert(value: Value): boolean {
    if (isText(value)) return isInert(textOf(value)) || this.#isOperators(textOf(value));
    if (Array.isArray(value)) return value.every((item) => this.#isInert(item));
    if (value instanceof Dict) {
      return [...value.entries()].every(([k, v]) => this.#isInert(k) && this.#isInert(v));
    }
    return typeof value !== 'object' || value === null || value instanceof Float;
  }

  /**
   * A list or a map as YAML, with marks in its texts.
   * @param asPython - as Python writes it, which may stand in quotes; otherwise as JSON
   */
  #written(value: Value, asPython: boolean): string {
    const written = (item: Value): string => this.#written(item, asPython);
    if (Array.isArray(value)) return `[${value.map(written).join(', ')}]`;
    if (value instanceof Dict) {
      const pairs = Array.from(value.entries(), ([key, item]) => {
        return `${written(key)}: ${written(item)}`;
      });
      return `{${pairs.join(', ')}}`;
    }
    if (isText(value)) {
      const [text, marked] = [textOf(value), this.#marked(textOf(value))];
      if (!asPython) return `"${marked}"`;
      return marked === text ? printedText([value]).slice(1, -1) : marked;
    }
    if (value === null) return asPython ? 'None' : 'null';
    if (typeof value === 'boolean') return String(value);
    return this.print(value);
  }
}

function isInert(text: string): boolean {
  return inert.test(text) && !text.endsWith(':') && !/^-(?!\d)/.test(text);
}

function hasText(value: Value): boolean {
  if (Array.isArray(value)) return value.some(hasText);
  if (value instanceof Dict) {
    return [...value.entries()].some(([key, item]) => hasText(key) || hasText(item));
  }
  return isText(value);
}

/** Whether a text is in some text of an event, names among them. */
function says(value: WireValue, text: string): boolean {
  if (typeof value === 'string') return value.includes(text);
  if (typeof value !== 'object' || value === null) return false;
  if (value instanceof Uint8Array) return Buffer.from(value).includes(text);
  if (Array.isArray(value)) return value.some((item) => says(item, text));
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return entries.some(([name, inner]) => says(name, text) || says(inner, text));
}

function isContainer(value: Value): value is Value[] | Dict {
  return Array.isArray(value) || value instanceof Dict;
}
