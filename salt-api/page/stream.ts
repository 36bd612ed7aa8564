/** The sections of the status page as they change, as server-sent events. */
import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import type { SendPool } from '../../runtime/index.ts';
import { sendStreamHead } from '../stream-head.ts';
import type { Overview } from './overview.ts';
import { type Places, sections } from './sections.ts';

/** What {@link streamSections} needs. */
export interface SectionStream {
  /** Looks as the reader may now. @throws AuthenticationError when they are nobody any more */
  readonly look: () => Promise<Overview>;
  readonly places: Places;
  readonly sendPool: SendPool;
  /** Ends it. */
  readonly end: AbortSignal;
}

/** Milliseconds between two looks. */
const intervalMs = 2000;

/** Sends what has changed, until the reader has gone, may no more, or does not read. */
export async function streamSections(
  reply: FastifyReply,
  { look, places, sendPool, end }: SectionStream,
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
      for (const [id, { text }] of sections(overview, places)) {
        if (sent.get(id) === text) continue;
        sent.set(id, text);
        const data = JSON.stringify({ id, markup: text });
        if (!queue.push(Buffer.from(`event: section\ndata: ${data}\n\n`))) return;
      }
      await delay(intervalMs, undefined, { signal: end });
      overview = await look();
    }
  } catch {
    // The end, or they are nobody any more: the page says that it is not live.
  }
  queue.end();
}
