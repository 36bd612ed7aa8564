import type { FastifyInstance, RouteHandlerMethod } from 'fastify';
import type { Operation } from '../operation.ts';

/** One method of a path: what it is, and what does it. */
export interface Served {
  readonly about: Operation;
  readonly handle: RouteHandlerMethod;
}

/** What can be done with a path. */
export interface Resource {
  readonly GET?: Served;
  readonly POST?: Served;
  /** Largest body of POST, bytes. Default: the server's. */
  readonly bodyLimit?: number;
  /** Whether HEAD works wherever GET does. Default true. */
  readonly hasHead?: boolean;
}

const otherMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

/** Serves a path; other methods are told which there are (405). */
export function addResource(app: FastifyInstance, url: string, resource: Resource): void {
  const { GET, POST, bodyLimit, hasHead = true } = resource;
  const served: string[] = [];
  if (GET !== undefined) {
    const config = { openapi: GET.about };
    app.route({ method: 'GET', url, exposeHeadRoute: hasHead, handler: GET.handle, config });
    served.push('GET', ...(hasHead ? ['HEAD'] : []));
  }
  if (POST !== undefined) {
    app.route({
      method: 'POST',
      url,
      handler: POST.handle,
      config: { openapi: POST.about },
      ...(bodyLimit === undefined ? {} : { bodyLimit }),
    });
    served.push('POST');
  }
  const allow = served.join(', ');
  app.route({
    method: otherMethods.filter((method) => !served.includes(method)),
    url,
    handler: (_request, reply) => {
      return reply
        .code(405)
        .header('allow', allow)
        .send({ status: 405, error: 'ERR_HTTP_UNKNOWN' });
    },
  });
}
