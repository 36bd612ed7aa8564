/**
 * Adds routes of Salt's API. A route has a handler for each supported method; other methods are
 * rejected.
 */

import type { FastifyInstance, FastifySchema, RouteHandlerMethod } from 'fastify';
import type { TSchema } from 'typebox';
import Type from 'typebox';
import { type RouteOperation, routeSchema } from '#runtime';

/** Handler and schema of one method of a route. */
export interface RouteMethod {
  readonly schema: FastifySchema;
  readonly handle: RouteHandlerMethod;
}

/** Methods that a route supports. */
export interface RouteMethods {
  readonly GET?: RouteMethod;
  readonly POST?: RouteMethod;
  /** Maximum size of a body of POST, in bytes. Default: the limit of the server. */
  readonly bodyLimit?: number;
  /** Whether a route that supports GET also supports HEAD. Default: true. */
  readonly hasHead?: boolean;
}

const otherMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

/** Adds a route. Other methods are rejected with status 405 and the list of supported methods. */
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
 * Schema of an error response. docs/errors.md lists the codes. The response for an internal error
 * of the server has Salt's text instead.
 */
export const usualRefusal: Readonly<Record<string, TSchema>> = {
  'application/json': Type.Object({
    status: Type.Integer(),
    error: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
  }),
};

/** Returns the schema of a route for /openapi.json. Adds the usual error response. */
export function describeRoute(
  operation: Omit<RouteOperation, 'refusal'> & Partial<Pick<RouteOperation, 'refusal'>>,
): FastifySchema {
  return routeSchema({ refusal: usualRefusal, ...operation });
}

/**
 * Disables the validation of requests by the schemas of the app's routes. The schemas then serve
 * only as documentation, and the handlers validate the body after they have identified the caller.
 * A request without a session can therefore find out nothing about the schemas.
 */
export function leaveValidationToHandlers(app: FastifyInstance): void {
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer));
}
