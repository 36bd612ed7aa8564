/** `/openapi.json`: what the API is, for programs. */
import type { FastifyInstance } from 'fastify';
import { openapiOperation } from '../operations.ts';
import { addResource } from './resource.ts';

/** @param document made once, when all routes are there */
export function addOpenapiRoute(app: FastifyInstance, document: () => unknown): void {
  let text: string | undefined;
  addResource(app, '/openapi.json', {
    GET: {
      about: openapiOperation,
      handle: (_request, reply) => {
        text ??= JSON.stringify(document());
        return reply.type('application/json').send(text);
      },
    },
  });
}
