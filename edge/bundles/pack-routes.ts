/** Route for reading parts of packs. Sites read them directly or through HTTP caches. */

import type { FastifyInstance } from 'fastify';
import type { PackCache } from './pack-cache.ts';

/** Entity tag of each part. One is enough, because the content of an address never changes. */
const tag = '"1"';

/**
 * Adds `GET /packs/<id>/<index>`. The route requires no credentials, because the id of a pack is
 * secret. Any cache may store the response, because the content of a pack never changes.
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
      return reply.type('application/octet-stream').send(part);
    },
  );
}
