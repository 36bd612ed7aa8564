/** `application/x-www-form-urlencoded`, read in steps. */
import type { ReadingStep } from '#runtime';

/** Characters that are decoded in one go. */
const maxPart = 65_536;

/** Fields of one step. */
const maxFields = 500;

/** A field as it stands in a form. */
export type FormField = readonly [name: string, text: string];

/** The fields, in their order. @throws RangeError for more than there may be */
export function* formFields(
  text: string,
  maxValues: number,
): Generator<ReadingStep, FormField[], void> {
  const fields: FormField[] = [];
  let step = { characters: 0, values: 0 };
  for (let start = 0; start < text.length; ) {
    const next = text.indexOf('&', start);
    const end = next === -1 ? text.length : next;
    if (step.characters >= maxPart || step.values >= maxFields) {
      yield step;
      step = { characters: 0, values: 0 };
    }
    if (end > start) {
      if (fields.length === maxValues) throw new RangeError(`more than ${maxValues} fields`);
      const equals = text.indexOf('=', start);
      const nameEnd = equals === -1 || equals > end ? end : equals;
      const name = yield* decoded(text, start, nameEnd);
      fields.push([name, yield* decoded(text, Math.min(nameEnd + 1, end), end)]);
    }
    step.characters += Math.min(end + 1 - start, maxPart);
    step.values += 1;
    start = end + 1;
  }
  return fields;
}

function* decoded(text: string, start: number, end: number): Generator<ReadingStep, string, void> {
  const parts: Buffer[] = [];
  for (let at = start; at < end; ) {
    if (parts.length > 0) yield { characters: maxPart, values: 0 };
    const next = partEnd(text, at, end);
    parts.push(unescaped(Buffer.from(text.slice(at, next))));
    at = next;
  }
  const [only = Buffer.of()] = parts;
  return (parts.length > 1 ? Buffer.concat(parts) : only).toString('utf8');
}

const plus = 0x2b;
const percent = 0x25;
const space = 0x20;

/** In place: what it gives is never longer. What is no escape stays as it is. */
function unescaped(bytes: Buffer): Buffer {
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    const escaped = byte === percent ? escapedByte(bytes, at) : undefined;
    if (escaped !== undefined) at += 2;
    bytes[length] = escaped ?? (byte === plus ? space : (byte ?? 0));
    length += 1;
  }
  return bytes.subarray(0, length);
}

function escapedByte(bytes: Buffer, at: number): number | undefined {
  const high = hexDigit(bytes[at + 1]);
  const low = hexDigit(bytes[at + 2]);
  return high === undefined || low === undefined ? undefined : high * 16 + low;
}

function hexDigit(byte = 0): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : undefined;
}

/** Not within an escape such as `%20`. */
function partEnd(text: string, start: number, end: number): number {
  const limit = start + maxPart;
  if (limit >= end) return end;
  const last = text.lastIndexOf('%', limit - 1);
  return last > limit - 3 ? last : limit;
}
