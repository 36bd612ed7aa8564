/**
 * Salt's default outputter: similar to YAML, with sorted keys and colours [salt output/nested.py].
 */

import { WireDateTime, WireExtension, type WireValue } from '#minion-protocol';
import { splitLines } from '#template/python/text.ts';
import { Float } from '#template/python/values.ts';
import { type Colors, escapeLine, escapeName, noColors } from '../terminal.ts';
import { mapEntries, pythonRepr, sortMapEntries } from './value-text.ts';

/** Display options of a value. */
export interface NestedOptions {
  /** Colours. Default: none. */
  readonly colors?: Colors;
  /** Whether the minion reported a failure. Keys and punctuation are then red. */
  readonly isFailure?: boolean;
  /** Indentation in spaces. Default: 0. */
  readonly indent?: number;
}

/** Formats the value in Salt's format, without a newline at the end. Empty texts are left out. */
export function formatNested(value: WireValue, options: NestedOptions = {}): string {
  const lines: string[] = [];
  const { colors = noColors, isFailure = false, indent = 0 } = options;
  new NestedWriter(lines, colors, isFailure).write(value, indent, '');
  return lines.join('\n');
}

class NestedWriter {
  readonly #lines: string[];
  readonly #colors: Colors;
  readonly #listColor: string;
  readonly #mapColor: string;

  constructor(lines: string[], colors: Colors, isFailure: boolean) {
    this.#lines = lines;
    this.#colors = colors;
    this.#listColor = isFailure ? colors.red : colors.green;
    this.#mapColor = isFailure ? colors.red : colors.cyan;
  }

  write(value: WireValue, indent: number, prefix: string): void {
    const { lightYellow } = this.#colors;
    if (value === null) this.#line(indent, lightYellow, `${prefix}None`);
    else if (value === true) this.#line(indent, lightYellow, `${prefix}True`);
    else if (value === false) this.#line(indent, lightYellow, `${prefix}False`);
    else if (isNumber(value)) {
      this.#line(indent, lightYellow, `${prefix}${pythonRepr(value)}`);
    } else if (typeof value === 'string') this.#writeText(value, indent, prefix);
    else if (value instanceof Uint8Array) this.#writeBytes(value, indent, prefix);
    else if (value instanceof WireDateTime) this.#writeText(value.text, indent, prefix);
    else if (value instanceof WireExtension) this.#writeList([value.code, value.data], indent);
    else if (Array.isArray(value)) this.#writeList(value, indent);
    else this.#writeMap(value, indent);
  }

  #line(indent: number, color: string, text: string, suffix = ''): void {
    this.#lines.push(`${' '.repeat(indent)}${color}${text}${this.#colors.end}${suffix}`);
  }

  #writeText(text: string, indent: number, prefix: string): void {
    for (const [index, line] of splitLines(text).entries()) {
      const start = index === 0 ? prefix : ' '.repeat(prefix.length);
      this.#line(indent, this.#colors.green, start + escapeLine(line));
    }
  }

  /** Writes bytes as text if they are valid UTF-8. Omits other bytes. */
  #writeBytes(bytes: Uint8Array, indent: number, prefix: string): void {
    let text: string;
    try {
      text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return;
    }
    this.#writeText(text, indent, prefix);
  }

  #writeList(items: readonly WireValue[], indent: number): void {
    for (const item of items) {
      if (isContainer(item)) {
        this.#line(indent, this.#listColor, '|_');
        this.write(item, indent + 2, '');
      } else {
        this.write(item, indent, '- ');
      }
    }
  }

  #writeMap(map: WireValue, indent: number): void {
    if (indent > 0) this.#line(indent, this.#mapColor, '----------');
    for (const [name, item] of sortMapEntries(mapEntries(map) ?? [])) {
      this.#line(indent, this.#mapColor, escapeName(name), ':');
      this.write(item, indent + 4, '');
    }
  }
}

function isNumber(value: WireValue): value is number | bigint | Float {
  return typeof value === 'number' || typeof value === 'bigint' || value instanceof Float;
}

function isContainer(value: WireValue): boolean {
  return Array.isArray(value) || value instanceof WireExtension || mapEntries(value) !== undefined;
}
