import type { Writable } from 'node:stream';
import type { MasterEvent } from '../master/index.ts';
import type { Pace } from './pace.ts';

/** Bytes that may wait for a reader before it is let go [THREATS A-18]. */
const maxWaitingBytes = 1_048_576;

/** Milliseconds between signs of life: what lies between may close silent connections. */
const lifeSignMs = 30_000;

/** How events are written. */
export interface EventForm {
  /** Nothing: these are not told. */
  readonly encode: (events: readonly MasterEvent[]) => Uint8Array;
  /** Written now and then. */
  readonly lifeSign: Uint8Array;
}

/**
 * Writes events until they end or the reader has gone. A reader that is too slow is let go, and
 * costs nothing to others.
 */
export async function writeEvents(
  batches: AsyncIterable<readonly MasterEvent[]>,
  out: Writable,
  { encode, lifeSign }: EventForm,
  pace: Pick<Pace, 'next'>,
): Promise<void> {
  const timer = setInterval(() => out.write(lifeSign), lifeSignMs);
  timer.unref();
  try {
    for await (const events of batches) {
      if (out.destroyed) return;
      const bytes = encode(events);
      if (bytes.byteLength > 0) out.write(bytes);
      if (out.writableLength > maxWaitingBytes) {
        out.destroy();
        return;
      }
      await pace.next();
    }
  } finally {
    clearInterval(timer);
  }
}
