/**
 * Text of events in files that are rendered and then read as YAML. What could mean something to
 * YAML stands in the rendered text as a mark, and is put in its place when the YAML has been read:
 * so it is a value, or a part of one, whatever it says.
 */
import type { PlainData } from '../../template/index.ts';

/** Brackets of a mark: printable for YAML, and in no alphabet. */
const [open, close] = ['\uE000', '\uE001'];

/** @param secret letters and digits: nobody can foresee it, so no event has marks of its own */
export function markFor(place: number, secret: string): string {
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

function isList(data: PlainData): data is readonly PlainData[] {
  return Array.isArray(data);
}
