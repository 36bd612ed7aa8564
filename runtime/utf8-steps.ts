/** Decodes UTF-8 in steps. */

import { isUtf8 } from 'node:buffer';
import type { ReadingStep } from './step-scheduler.ts';

/**
 * Minimum number of bytes that a step decodes, except in the last step. A step joins chunks until
 * their total size reaches this number. A chunk that was read from a socket is not larger than
 * this, so a step decodes less than twice this number.
 */
const maxPartBytes = 65_536;

/**
 * Decodes UTF-8 in steps.
 * @returns the text, or `undefined` if the bytes are not valid UTF-8
 */
export function* textInSteps(
  chunks: readonly Uint8Array[],
): Generator<ReadingStep, string | undefined, void> {
  const parts: string[] = [];
  let waiting: Uint8Array[] = [];
  let bytes = 0;
  for (const [index, chunk] of chunks.entries()) {
    waiting.push(chunk);
    bytes += chunk.byteLength;
    const isLast = index === chunks.length - 1;
    if (!isLast && bytes < maxPartBytes) continue;
    const part = waiting.length === 1 ? chunk : Buffer.concat(waiting);
    const end = isLast ? part.byteLength : endOfCharacters(part);
    const whole = part.subarray(0, end);
    if (!isUtf8(whole)) return undefined;
    parts.push(Buffer.from(whole.buffer, whole.byteOffset, whole.byteLength).toString('utf8'));
    waiting = [part.subarray(end)];
    bytes = part.byteLength - end;
    if (!isLast) yield { characters: end, values: 0 };
  }
  return parts.length === 1 ? parts[0] : parts.join('');
}

/** Returns the index after the last complete character. */
function endOfCharacters(bytes: Uint8Array): number {
  for (let back = 1; back <= 3; back += 1) {
    const byte = bytes.at(-back) ?? 0;
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return length > back ? bytes.byteLength - back : bytes.byteLength;
  }
  return bytes.byteLength;
}
