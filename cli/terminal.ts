import { once } from 'node:events';
import { writeJson } from '#runtime';
import type { CommandContext, OutputStream } from './context.ts';

/**
 * Matches characters that are escaped: control characters except the tab, line separators, and
 * characters that change the text direction. Otherwise text from a minion could control the
 * terminal, or imitate a line of this program [THREATS M-19].
 */
const unsafe = /(?!\t)[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu;

/** Matches the characters of {@link unsafe} that JSON does not escape itself. */
const unsafeInJson = /[\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;

/**
 * Escapes a text for one line. As in Salt, the escape character becomes `?`. Other characters
 * become `\xNN`.
 */
export function escapeLine(text: string): string {
  return text.replaceAll('\x1b', '?').replace(unsafe, toEscape);
}

/** Escapes a text of several lines. Its line breaks are not changed. */
export function escapeLines(text: string): string {
  return text.split('\n').map(escapeLine).join('\n');
}

/**
 * Escapes a name, such as an id, a tag or a key. The result is one line, in which every character
 * is visible.
 */
export function escapeName(text: string): string {
  return text.replaceAll('\t', '\\t').replaceAll('\n', '\\n').replace(unsafe, toEscape);
}

/** Escapes JSON text for printing. The result represents the same data. */
export function escapeJson(json: string): string {
  return json.replace(unsafeInJson, (character) => `\\u${hex(character, 4)}`);
}

function toEscape(character: string): string {
  return character.charCodeAt(0) > 0xff ? `\\u${hex(character, 4)}` : `\\x${hex(character, 2)}`;
}

function hex(character: string, digits: number): string {
  return character.charCodeAt(0).toString(16).padStart(digits, '0');
}

/** Writes a line. Waits if the reader of the stream is slow. */
export async function printLine(stream: OutputStream, line: string): Promise<void> {
  if (!stream.write(`${line}\n`)) await once(stream, 'drain');
}

/**
 * Writes a result of this program as indented JSON, with unsafe characters escaped. Values that
 * minions returned are printed by outputters instead.
 */
export async function printJson(stream: OutputStream, answer: object): Promise<void> {
  await printLine(stream, escapeJson(writeJson(answer, 2)));
}

/**
 * Prints a list: as JSON, or one line for each item. If the list is empty, prints the message
 * `none` on standard error.
 */
export async function printList<T>(
  { stdout, stderr }: Pick<CommandContext, 'stderr' | 'stdout'>,
  items: readonly T[],
  { json, format, none }: ListFormat<T>,
): Promise<void> {
  if (json) return printJson(stdout, items);
  if (items.length === 0) await printLine(stderr, none);
  for (const item of items) await printLine(stdout, format(item));
}

/** Format of a list. */
interface ListFormat<T> {
  readonly json: boolean | undefined;
  readonly format: (item: T) => string;
  readonly none: string;
}

/** Progress line on a terminal. Writes nothing if the output is not a terminal. */
export class Progress {
  readonly #stream: OutputStream;
  #isShown = false;

  constructor(stream: OutputStream) {
    this.#stream = stream;
  }

  /** Replaces the previous text on the line. */
  show(text: string): void {
    if (this.#stream.isTTY !== true) return;
    this.#stream.write(`\r\x1b[K${text}`);
    this.#isShown = true;
  }

  /** Removes the line, so that other output can follow. */
  clear(): void {
    if (this.#isShown) this.#stream.write('\r\x1b[K');
    this.#isShown = false;
  }
}

/** Terminal sequences for the colours of Salt's outputters [salt utils/color.py]. */
export interface Colors {
  readonly red: string;
  readonly green: string;
  readonly blue: string;
  readonly magenta: string;
  readonly cyan: string;
  readonly lightRed: string;
  readonly lightGreen: string;
  readonly lightYellow: string;
  readonly lightBlue: string;
  readonly lightMagenta: string;
  /** Terminal sequence that ends a colour. */
  readonly end: string;
}

/** Escape sequences for output to a terminal. */
export const terminalColors: Colors = {
  red: '\x1b[0;31m',
  green: '\x1b[0;32m',
  blue: '\x1b[0;34m',
  magenta: '\x1b[0;35m',
  cyan: '\x1b[0;36m',
  lightRed: '\x1b[0;1;31m',
  lightGreen: '\x1b[0;1;32m',
  lightYellow: '\x1b[0;1;33m',
  lightBlue: '\x1b[0;1;34m',
  lightMagenta: '\x1b[0;1;35m',
  end: '\x1b[0;0m',
};

/** Colours for output to pipes and files: empty texts. */
export const noColors: Colors = {
  red: '',
  green: '',
  blue: '',
  magenta: '',
  cyan: '',
  lightRed: '',
  lightGreen: '',
  lightYellow: '',
  lightBlue: '',
  lightMagenta: '',
  end: '',
};
