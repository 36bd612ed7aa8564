/** Creates schemas of HTTP routes, from which @fastify/swagger generates /openapi.json. */

import type {} from '@fastify/swagger';
import type { FastifySchema } from 'fastify';
import type { TSchema } from 'typebox';
import Type from 'typebox';

/**
 * Credentials that a route requires. `anybody`: none; `session`: a session; `credentials`: user
 * name and password in the body; `token`: a token or a session.
 */
type RouteAccess = 'anybody' | 'session' | 'credentials' | 'token';

/** One HTTP method of one path, for the generated API description. */
export interface RouteOperation {
  readonly summary: string;
  readonly access: RouteAccess;
  /** Optional query parameters, by name. Default: none. */
  readonly query?: Readonly<Record<string, TSchema>>;
  /** Schema of the body. Default: the body is ignored. */
  readonly body?: TSchema;
  /** Media types of the body, the most common one first. Default: JSON. */
  readonly bodyTypes?: readonly string[];
  /** Schema of the answer. Default: any value. */
  readonly answer?: TSchema;
  /** Media types of the answer. Default: JSON. */
  readonly answerTypes?: readonly string[];
  /** Status of the answer. Default: 200. */
  readonly status?: number;
  /** Schemas of error bodies, by media type. */
  readonly refusal: Readonly<Record<string, TSchema>>;
}

const security: Readonly<Record<RouteAccess, NonNullable<FastifySchema['security']>>> = {
  anybody: [],
  // OpenAPI cannot express credentials in the body.
  credentials: [],
  session: [{ session: [] }, { cookie: [] }],
  token: [{ token: [] }, { session: [] }],
};

/** Returns the option `schema` of a Fastify route. */
export function routeSchema(operation: RouteOperation): FastifySchema {
  const { summary, access, query = {}, body, answer = Type.Unknown(), status = 200 } = operation;
  const { bodyTypes = ['application/json'], answerTypes = ['application/json'] } = operation;
  const content = (types: readonly string[], schema: TSchema): object =>
    Object.fromEntries(types.map((type) => [type, { schema }]));
  const refusals = Object.entries(operation.refusal).map(([type, schema]) => [type, { schema }]);
  return {
    summary,
    security: security[access],
    querystring: Type.Partial(Type.Object(query)),
    ...(body === undefined ? {} : { body: { content: content(bodyTypes, body) } }),
    response: {
      [status]: { description: 'Done', content: content(answerTypes, answer) },
      default: {
        description: 'Error; docs/errors.md lists the codes',
        content: Object.fromEntries(refusals),
      },
    },
  };
}
