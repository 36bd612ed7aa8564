import type { Writable } from 'node:stream';
import type { MasterEvent } from '../master/index.ts';

/** Bytes that may wait for a reader before it is let go [THREATS A-18]. */
const maxWaitingBytes = 1_048_576;

/** Milliseconds between signs of life: what lies between may close silent connections. */
const lifeSignMs = 30_000;

/**
 * Writes events until they end or the reader has gone. A reader that is too slow is let go, and
 * costs nothing to others; what comes in one turn is one write.
 * @param lifeSign written now and then
 */
export async function writeEvents(
  events: AsyncIterable<MasterEvent>,
  out: Writable,
  encode: (event: MasterEvent) => Uint8Array,
  lifeSign: Uint8Array,
): Promise<void> {
  const timer = setInterval(() => out.write(lifeSign), lifeSignMs);
  timer.unref();
  let isCorked = false;
  try {
    for await (const event of events) {
      if (out.destroyed) return;
      if (!isCorked) {
        isCorked = true;
        out.cork();
        setImmediate(() => {
          isCorked = false;
          out.uncork();
        });
      }
      out.write(encode(event));
      if (out.writableLength > maxWaitingBytes) {
        out.destroy();
        return;
      }
    }
  } finally {
    clearInterval(timer);
  }
}
