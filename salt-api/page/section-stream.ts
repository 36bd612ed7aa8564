/** Sends the sections of the status page as server-sent events when they change. */

import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import type { SendPool } from '#runtime';
import { sendStreamHead } from '../event-stream.ts';
import type { Overview } from './overview.ts';
import { type PageLinks, renderSections } from './sections.ts';

interface SectionStream {
  /**
   * Loads the data that the reader may see at this time.
   * @throws AuthenticationError if the session has ended
   */
  readonly loadOverview: () => Promise<Overview>;
  readonly places: PageLinks;
  readonly sendPool: SendPool;
  /** Signal that is aborted when the stream must end. */
  readonly end: AbortSignal;
}

/** Interval between two updates, in milliseconds. */
const refreshMs = 2000;

/** Sends changes until the reader disconnects, loses the right to read, or stops reading. */
export async function streamSections(
  reply: FastifyReply,
  { loadOverview: look, places, sendPool, end }: SectionStream,
): Promise<void> {
  const sent = new Map<string, string>();
  // Load the data before the head of the response is sent, so that a reader without rights gets an
  // error response.
  let overview = await look();
  sendStreamHead(reply, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
  });
  const queue = sendPool.open(reply.raw);
  try {
    while (!end.aborted) {
      for (const [id, { text }] of renderSections(overview, places)) {
        if (sent.get(id) === text) continue;
        sent.set(id, text);
        const data = JSON.stringify({ id, markup: text });
        if (!queue.push(Buffer.from(`event: section\ndata: ${data}\n\n`))) return;
      }
      await delay(refreshMs, undefined, { signal: end });
      overview = await look();
    }
  } catch {
    // The stream or the session has ended. The page shows that it is no longer updated.
  }
  queue.end();
}
