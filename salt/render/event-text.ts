import { isPlainYamlText } from '#master';
import type { WireValue } from '#minion-protocol';
import type { WorkMeter } from '#runtime';
import { Dict, Float, isText, type PlainData, printedText, textOf, type Value } from '#template';
import { isList } from './pillar-data.ts';

// Placeholders ("marks") for untrusted values in a text that is rendered and then parsed as YAML.
// In the rendered text, a mark stands for each text of the event. After parsing, the original text
// is inserted, so that it can only become a value or part of a value. In reactor files, every text
// of the event gets a mark, so that it can be distinguished from the operator's text. Numbers,
// dates, booleans and null get none, because YAML gives them their type. In other files, words
// without a special meaning in YAML get none either, because templates compare printed words.

/**
 * First and last character of a placeholder, which stands for a text of the event in a rendered
 * file. Both characters are valid in YAML and come from Unicode's private use area.
 */
const [open, close] = ['\uE000', '\uE001'];

/**
 * Returns the placeholder of a text.
 * @param place - index of the text
 * @param secret - random letters and digits; senders of events cannot guess them, so that an event
 * cannot contain a valid placeholder
 */
function markFor(place: number, secret: string): string {
  return `${open}${secret}.${place}${close}`;
}

/** Replaces the placeholders in a rendered file by the texts of the event that they stand for. */
export class EventText {
  readonly #texts: readonly string[];
  readonly #marks: RegExp;

  /**
   * @param texts - original texts. The number in a placeholder is the index of its original text in
   * this list
   */
  constructor(secret: string, texts: readonly string[]) {
    this.#texts = texts;
    this.#marks = new RegExp(`${open}${secret}\\.(\\d+)${close}`, 'gu');
  }

  /** Whether a text contains placeholders for texts of the event. */
  isIn(text: string): boolean {
    return this.restore(text) !== text;
  }

  /** Replaces the placeholders in a text with the original texts. */
  restore(text: string): string {
    if (!text.includes(open)) return text;
    // A text can only contain marks of texts that were marked before it.
    return text.replace(this.#marks, (_mark, place) => this.restore(this.#texts[place] ?? ''));
  }

  /** Replaces the placeholders in all texts of the data, including keys of maps. */
  restoreAll(data: PlainData): PlainData {
    if (typeof data === 'string') return this.restore(data);
    if (isList(data)) return data.map((item) => this.restoreAll(item));
    if (!(data instanceof Map)) return data;
    return new Map(
      Array.from(data, ([key, value]) => [this.restoreAll(key), this.restoreAll(value)]),
    );
  }
}

/** Matches texts that have no special meaning in YAML, wherever they stand in a document. */
const inert = /^(?![-.]{1,3}$)[A-Za-z0-9_/.+~-][A-Za-z0-9_/.+~:-]*$/;

/**
 * Sources of the texts that a template prints. The printer puts placeholders only in place of texts
 * that come from the event.
 */
export interface Origins {
  readonly event: WireValue;
  /** Returns the texts of the files read so far. */
  readonly files: () => Iterable<string>;
  /**
   * Whether placeholders also stand for event text that has no special meaning in YAML, such as
   * `web1`. Text that YAML reads as a number, date, boolean or null, such as `5`, never gets a
   * placeholder.
   */
  readonly marksWords: boolean;
}

/**
 * Prints the values that a template outputs. A placeholder replaces each text that comes from the
 * event, so that the text cannot change the meaning of the YAML.
 */
export class EventPrinter {
  readonly #texts: string[] = [];
  readonly #origins: Origins;
  readonly #secret: string;
  #said: Said | undefined;
  /** Results of {@link #isOperators} by text. */
  readonly #verdicts = new Map<string, boolean>();
  /** Meter of the rendering that uses this printer. */
  #meter: WorkMeter | undefined;

  constructor(secret: string, origins: Origins) {
    this.#secret = secret;
    this.#origins = origins;
  }

  /** Original texts of the placeholders, by index. */
  get texts(): readonly string[] {
    return this.#texts;
  }

  /** Returns the text that is rendered for a value, and counts the work. */
  readonly print = (value: Value, meter: WorkMeter): string => {
    this.#meter = meter;
    return this.#print(value);
  };

  #print(value: Value): string {
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

  /**
   * Whether a text needs no placeholder even if it comes from the event, because it has no special
   * meaning in YAML. If `marksWords` is set, only a number, date, boolean or null of YAML needs
   * none.
   */
  #isLeft(text: string): boolean {
    return isInert(text) && !(this.#origins.marksWords && isPlainYamlText(text));
  }

  /** Whether a text occurs in one of the operator's files and nowhere in the event. */
  #isOperators(text: string): boolean {
    const { event, files } = this.#origins;
    this.#said ??= saidIn(event);
    const said = this.#said;
    if (said.texts.has(text)) return false;
    const known = this.#verdicts.get(text);
    if (known !== undefined) return known;
    const read = [...files()];
    const characters = read.reduce((sum, file) => sum + file.length, said.characters);
    this.#meter?.spend('texts of the event', characters / charactersPerStep);
    const isWritten = read.some((file) => file.includes(text));
    const verdict = isWritten && !isPartOf(said, text);
    // A file that is imported later can contain a text that no file has contained so far.
    if (isWritten) this.#verdicts.set(text, verdict);
    return verdict;
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
   * Prints a list or map as YAML, with placeholders in place of its texts.
   * @param asPython - `true`: prints Python syntax, as Salt does. Its single quotes also fit into a
   * template that encloses the output in double quotes. `false`: prints JSON syntax
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
    return this.#print(value);
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

/** Texts of an event. */
interface Said {
  /** Texts of its values and keys. */
  readonly texts: ReadonlySet<string>;
  readonly bytes: readonly Buffer[];
  readonly characters: number;
}

/** Number of characters whose search counts as one step of work. */
const charactersPerStep = 16;

/** Collects the texts of an event, so that a template that prints all of them does not search. */
function saidIn(event: WireValue): Said {
  const texts = new Set<string>();
  const bytes: Buffer[] = [];
  const collect = (value: WireValue): void => {
    if (typeof value === 'string') texts.add(value);
    if (typeof value !== 'object' || value === null) return;
    if (value instanceof Uint8Array) bytes.push(Buffer.from(value));
    else if (Array.isArray(value)) value.forEach(collect);
    else
      for (const pair of value instanceof Map ? value : Object.entries(value))
        pair.forEach(collect);
  };
  collect(event);
  const lengths = [...texts, ...bytes].map(({ length }) => length);
  return { texts, bytes, characters: lengths.reduce((sum, length) => sum + length, 0) };
}

/** Whether a text is a part of a text of the event. */
function isPartOf({ texts, bytes }: Said, part: string): boolean {
  return [...texts, ...bytes].some((it) => it.includes(part));
}

function isContainer(value: Value): value is Value[] | Dict {
  return Array.isArray(value) || value instanceof Dict;
}
