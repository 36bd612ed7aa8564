/** Sends the sections of the status page as they change, as server-sent events. */

import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import type { SendPool } from '#runtime';
import { sendStreamHead } from '../event-stream.ts';
import type { Overview } from './overview.ts';
import { type PageLinks, renderSections } from './sections.ts';

interface SectionStream {
  /** Looks as the reader may now. @throws AuthenticationError when they are nobody any more */
  readonly loadOverview: () => Promise<Overview>;
  readonly places: PageLinks;
  readonly sendPool: SendPool;
  /** Ends it. */
  readonly end: AbortSignal;
}

/** Milliseconds between two looks. */
const refreshMs = 2000;

/** Sends what has changed, until the reader has gone, may no more, or does not read. */
export async function streamSections(
  reply: FastifyReply,
  { loadOverview: look, places, sendPool, end }: SectionStream,
): Promise<void> {
  const sent = new Map<string, string>();
  // Before the head: who may not is told so.
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
    // The end, or they are nobody any more: the page says that it is not live.
  }
  queue.end();
}
