/**
 * A function's arguments as the `salt` command reads them: each is YAML if it is a scalar, a
 * `[list]` or a `{map}`, else the text as it was typed [salt utils/args.py].
 */

import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import { parseYaml } from './yaml.ts';

/** Arguments, ready to be published. */
export interface FunctionArguments {
  readonly arg: readonly WireValue[];
  /** Has no prototype: every name is one that was typed. */
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** A name in Python's `^([^\d\W][\w.-]*)=(?!=)(.*)$`, where `.` stops at a newline only. */
const keywordName = /^[\p{L}\p{Nl}\p{No}_][\p{L}\p{N}_.-]*$/u;

/** What a 64 bit jid looks like as a number: the minion wants it as text [salt utils/jid.py]. */
const jidText = /^-?\d+$/;

/**
 * Separates `name=value` from positional arguments and reads each.
 * @param inputs as typed
 * @param noParse names of keywords whose value is text whatever it looks like
 */
export function parseArguments(
  inputs: readonly string[],
  noParse: readonly string[] = [],
): FunctionArguments {
  const arg: WireValue[] = [];
  const kwarg: Record<string, WireValue> = Object.create(null);
  for (const input of inputs) {
    const name = keywordNameOf(input);
    if (name === undefined) {
      arg.push(jidAsText(parseArgument(input)));
      continue;
    }
    const value = input.slice(name.length + 1).replace(/\n$/, '');
    kwarg[name] = noParse.includes(name) ? value : parseArgument(value);
  }
  return { arg, kwarg };
}

/** Whether a minion takes this text for `name=value`, also where it stands among positional ones. */
export function isKeywordText(text: string): boolean {
  return keywordNameOf(text) !== undefined;
}

/** The name in such a text. */
export function keywordNameOf(text: string): string | undefined {
  const end = text.indexOf('=');
  if (end < 1 || text[end + 1] === '=') return undefined;
  const newline = text.indexOf('\n', end);
  if (newline !== -1 && newline !== text.length - 1) return undefined;
  const name = text.slice(0, end);
  return keywordName.test(name) ? name : undefined;
}

/** One argument. Never fails: what is not YAML, or not meant as such, is text. */
export function parseArgument(text: string): WireValue {
  if (isPlainText(text)) return text;
  let value: WireValue;
  try {
    value = text === 'None' ? null : parseYaml(text);
  } catch {
    return text;
  }
  return keepsText(text, value) ? text : value;
}

function isPlainText(text: string): boolean {
  const trimmed = text.trim();
  if (trimmed === '' || trimmed === '---' || trimmed === '...') return true;
  if (text.includes('_') && /^[\d_]*$/.test(trimmed)) return true;
  return /[\t\r\n]/.test(text);
}

/** Where Salt prefers the text although it is YAML: nothing must be lost by reading it. */
function keepsText(text: string, value: WireValue): boolean {
  if (text.includes('#')) return typeof value === 'string' || value === null;
  if (Array.isArray(value)) return !text.startsWith('[');
  if (value instanceof Uint8Array) return true;
  if (typeof value === 'object' && value !== null) return !text.startsWith('{');
  return (value === '' && text === '|') || ((value === '' || value === null) && text === '!');
}

function jidAsText(value: WireValue): WireValue {
  if (typeof value !== 'bigint') return value;
  const text = String(value);
  return text.length === 20 && jidText.test(text) ? text : value;
}

/** Levels that a caller's value may have [THREATS A-17]. */
// protection: deep-bodies
export const maxPlainDepth = 32;

/**
 * A value of YAML or JSON as one whose maps have text as keys, with no key that means anything to us.
 * @throws SyntaxError for what is too deep, or has text that is no Unicode
 */
export function toPlainValue(value: unknown, depth = 0): WireValue {
  if (depth > maxPlainDepth) throw new SyntaxError(`more than ${maxPlainDepth} levels`);
  if (typeof value === 'string') return checkedText(value);
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  if (value instanceof Uint8Array) return value;
  if (Array.isArray(value)) return value.map((item) => toPlainValue(item, depth + 1));
  if (typeof value !== 'object') throw new SyntaxError(`a ${typeof value} is no value of Salt's`);
  const map: WireMap = Object.create(null);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  for (const [key, item] of entries) map[checkedText(String(key))] = toPlainValue(item, depth + 1);
  return map;
}

function checkedText(text: string): string {
  if (/\p{Cs}/u.test(text)) throw new SyntaxError('text that is not Unicode');
  return text;
}

/** Whether text is the name of a function: `module.function`. */
export function isFunctionName(fun: string): boolean {
  return functionName.test(fun);
}

const functionName: RegExp = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$/;
