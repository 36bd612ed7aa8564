/** `/openapi.json`, a description of the API that is generated from the schemas of its routes. */

import swagger from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import { addRoute } from './route.ts';
import { openapiSchema } from './schemas.ts';

/** Collects the schemas of all routes that are added later, for `app.swagger()`. */
export async function collectSchemas(
  app: FastifyInstance,
  info: { readonly title: string; readonly version: string },
): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info,
      components: {
        securitySchemes: {
          session: { type: 'apiKey', in: 'header', name: 'X-Auth-Token' },
          cookie: { type: 'apiKey', in: 'cookie', name: 'session_id' },
          token: { type: 'http', scheme: 'bearer' },
        },
      },
    },
    transform: ({ schema, url }) => ({
      schema: schema ?? { hide: true },
      url: url.replace(/(.)\/$/, '$1').replace('*', ':path'),
    }),
  });
}

/** Adds `/openapi.json`. The document is generated at the first request. */
export function addOpenapiRoute(app: FastifyInstance): void {
  // All responses share these bytes. For a text, each unread response would hold a copy.
  let document: Buffer | undefined;
  addRoute(app, '/openapi.json', {
    GET: {
      schema: openapiSchema,
      handle: (_request, reply) => {
        document ??= Buffer.from(JSON.stringify(app.swagger()));
        return reply.type('application/json').send(document);
      },
    },
  });
}
