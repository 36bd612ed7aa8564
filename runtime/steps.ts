import { isUtf8 } from 'node:buffer';
import { type Channel, channel } from 'node:diagnostics_channel';
import type { ReadingStep } from './json.ts';

/** Tells {@link ReadingStep} of every step that a scheduler ran, to whoever subscribes. */
export const readingSteps: Channel = channel('saltbridge.reading.step');

interface ScheduledWork {
  /** Whether it is done. */
  readonly advance: () => boolean;
}

/**
 * Does long work in steps: one for each turn of the event loop, however much work there is, and each
 * work in its turn. New work does its first two at once: most is done with them.
 */
export class StepScheduler {
  readonly #waiting: ScheduledWork[] = [];
  #isScheduled = false;

  /** @throws what the work throws */
  run<T>(steps: Generator<ReadingStep, T, void>): Promise<T> {
    return new Promise((resolve, reject) => {
      const advance = (): boolean => {
        try {
          const { done, value } = steps.next();
          if (done === true) resolve(value);
          else readingSteps.publish(value);
          return done === true;
        } catch (error) {
          reject(error);
          return true;
        }
      };
      if (advance() || advance()) return;
      this.#waiting.push({ advance });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.length === 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      const next = this.#waiting.shift();
      if (next !== undefined && !next.advance()) this.#waiting.push(next);
      this.#schedule();
    });
  }
}

/** Bytes that are decoded in one go, at least: what comes from a socket at once may be as much. */
const maxPart = 65_536;

/** The text of bytes in UTF-8, decoded in steps; `undefined`: they are something else. */
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
    if (!isLast && bytes < maxPart) continue;
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

/** Where the last character ends that is complete. */
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
