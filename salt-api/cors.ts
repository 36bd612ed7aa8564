/** Pages of other origins: those that are listed, exactly [CONTRACT 1.3; THREATS A-15]. */
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Says on every answer what a page of another origin may read. */
export function addCorsHeaders(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  origins: readonly string[],
): boolean {
  if (origins.length > 0) reply.header('vary', 'Origin');
  const { origin } = headers;
  // protection: any-origin
  if (origin === undefined || !origins.includes(origin)) return false;
  reply.header('access-control-allow-origin', origin);
  reply.header('access-control-allow-credentials', 'true');
  reply.header('access-control-expose-headers', 'GET, POST');
  return true;
}

/** Whether a browser asks beforehand what it may. */
export function isPreflight({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}

/** Answers it; whose origin is not listed learns nothing by it. */
export function answerPreflight(reply: FastifyReply, isListed: boolean): FastifyReply {
  if (isListed) {
    reply.header('access-control-allow-methods', 'GET, POST');
    reply.header('access-control-allow-headers', 'Content-Type, X-Auth-Token, X-Requested-With');
    reply.header('access-control-max-age', '1400');
  }
  // protection: sessions-by-preflight
  return reply.code(200).send('');
}
