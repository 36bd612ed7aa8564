import type { Logger } from 'pino';
import type { MasterEvent } from '../master/index.ts';
import type { SendQueue } from '../runtime/index.ts';
import type { Pace } from './pace.ts';

/** Milliseconds between signs of life: what lies between may close silent connections. */
const lifeSignMs = 30_000;

/** How events are written. */
export interface EventForm {
  /** Whole messages; none: these events are not told. */
  readonly encode: (events: readonly MasterEvent[]) => readonly Uint8Array[];
  /** Written now and then. */
  readonly lifeSign: Uint8Array;
}

/** What {@link writeEvents} needs beside the events. */
export interface EventWriterOptions {
  readonly form: EventForm;
  readonly pace: Pick<Pace, 'next'>;
  readonly log: Pick<Logger, 'warn'>;
}

/** Writes events until they end, or the reader has gone or is too slow; ends the stream then. */
export async function writeEvents(
  batches: AsyncIterable<readonly MasterEvent[]>,
  queue: SendQueue,
  { form: { encode, lifeSign }, pace, log }: EventWriterOptions,
): Promise<void> {
  const timer = setInterval(() => {
    if (queue.waitingBytes === 0) queue.push(lifeSign);
  }, lifeSignMs);
  timer.unref();
  try {
    for await (const events of batches) {
      for (const bytes of encode(events)) if (!queue.push(bytes)) return;
      await pace.next();
    }
    queue.end();
  } catch (err) {
    log.warn({ err }, 'a stream of events ended before its time');
    queue.cut();
  } finally {
    clearInterval(timer);
  }
}
