/**
 * Routes of Salt's API. A resource has a handler for each supported method and rejects the others.
 */

import type { FastifyInstance, FastifySchema, RouteHandlerMethod } from 'fastify';
import type { TSchema } from 'typebox';
import Type from 'typebox';
import { type RouteOperation, routeSchema } from '#runtime';

/** One method of a path. */
export interface RouteMethod {
  readonly schema: FastifySchema;
  readonly handle: RouteHandlerMethod;
}

/** Methods of a path. */
export interface RouteMethods {
  readonly GET?: RouteMethod;
  readonly POST?: RouteMethod;
  /** Maximum size of the body of POST, in bytes. Default: the server's. */
  readonly bodyLimit?: number;
  /** Whether HEAD is supported wherever GET is. Default: true. */
  readonly hasHead?: boolean;
}

const otherMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

/** Serves a path. Other methods are rejected with 405 and the list of supported methods. */
export function addRoute(app: FastifyInstance, url: string, resource: RouteMethods): void {
  const { GET, POST, bodyLimit, hasHead = true } = resource;
  const served: string[] = [];
  if (GET !== undefined) {
    const { schema, handle: handler } = GET;
    app.route({ method: 'GET', url, exposeHeadRoute: hasHead, handler, schema });
    served.push('GET', ...(hasHead ? ['HEAD'] : []));
  }
  if (POST !== undefined) {
    const { schema, handle: handler } = POST;
    const limit = bodyLimit === undefined ? {} : { bodyLimit };
    app.route({ method: 'POST', url, handler, schema, ...limit });
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

/**
 * Schema of an error response. docs/errors.md lists the codes. A server error has Salt's text
 * instead.
 */
export const usualRefusal: Readonly<Record<string, TSchema>> = {
  'application/json': Type.Object({
    status: Type.Integer(),
    error: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
  }),
};

/** Returns the schema of a route of Salt's API. */
export function describeRoute(
  operation: Omit<RouteOperation, 'refusal'> & Partial<Pick<RouteOperation, 'refusal'>>,
): FastifySchema {
  return routeSchema({ refusal: usualRefusal, ...operation });
}

/**
 * Uses the schemas of these routes for documentation only. Handlers parse JSON, YAML or form bodies
 * after they identify the caller, so a request without a session learns nothing about the schema.
 */
export function leaveValidationToHandlers(app: FastifyInstance): void {
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer));
}
