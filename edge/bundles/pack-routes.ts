/** Route for reading parts of packs. Sites read them directly or through HTTP caches. */

import type { FastifyInstance } from 'fastify';
import type { PackCache } from './pack-cache.ts';

/**
 * Entity tag of every part. All parts have the same tag, because the content at the URL of a part
 * never changes.
 */
const tag = '"1"';

/**
 * Adds `GET /packs/<id>/<index>`. The route requires no credentials, because the id of a pack is
 * secret. Any cache may store the response, because the content of a pack never changes. A site that
 * has the first bytes of a part requests the rest with the header `range: bytes=N-`.
 */
export function addPackRoutes(app: FastifyInstance, packs: PackCache): void {
  app.get<{ Params: { id: string; index: string } }>(
    '/packs/:id/:index',
    async (request, reply) => {
      const { id, index } = request.params;
      const part = /^\d{1,7}$/.test(index) ? await packs.part(id, Number(index)) : undefined;
      if (part === undefined) {
        return reply.code(404).header('cache-control', 'no-store').send({ error: 'no such part' });
      }
      reply.header('cache-control', 'public, max-age=31536000, immutable').header('etag', tag);
      if (request.headers['if-none-match'] === tag) return reply.code(304).send();
      reply.type('application/octet-stream').header('accept-ranges', 'bytes');
      const from = beginOf(request.headers.range);
      if (from === undefined) return reply.send(part);
      if (from >= part.length) {
        return reply.code(416).header('content-range', `bytes */${part.length}`).send();
      }
      const range = `bytes ${from}-${part.length - 1}/${part.length}`;
      return reply.code(206).header('content-range', range).send(part.subarray(from));
    },
  );
}

/**
 * Returns the index of the first byte of a range without an end, for example 100 for `bytes=100-`.
 * Other ranges are ignored, as RFC 9110 permits.
 */
function beginOf(range: string | undefined): number | undefined {
  const digits = /^bytes=(\d{1,7})-$/.exec(range ?? '')?.[1];
  return digits === undefined ? undefined : Number(digits);
}
