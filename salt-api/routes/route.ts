import type { FastifyInstance, RouteHandlerMethod } from 'fastify';
import type { TSchema } from 'typebox';
import Type from 'typebox';

/** One method of a path: what it is, and what does it. */
export interface RouteMethod {
  readonly about: RouteOperation;
  readonly handle: RouteHandlerMethod;
}

/** What can be done with a path. */
export interface RouteMethods {
  readonly GET?: RouteMethod;
  readonly POST?: RouteMethod;
  /** Largest body of POST, bytes. Default: the server's. */
  readonly bodyLimit?: number;
  /** Whether HEAD works wherever GET does. Default true. */
  readonly hasHead?: boolean;
}

const otherMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

/** Serves a path; other methods are told which there are (405). */
export function addRoute(app: FastifyInstance, url: string, resource: RouteMethods): void {
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

// Descriptions of routes, for /openapi.json.

/** Who is asked for what: nothing; a session; credentials or a token in the body. */
type RouteAccess = 'anybody' | 'session' | 'credentials' | 'token';

/** A code, as docs/errors.md has them; a fault of the server has Salt's text in place of one. */
export const usualRefusal: Readonly<Record<string, TSchema>> = {
  'application/json': Type.Object({
    status: Type.Integer(),
    error: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
  }),
};

/** One method of one path. */
export interface RouteOperation {
  readonly summary: string;
  readonly access: RouteAccess;
  /** What may stand in the query, by name. Default: nothing. */
  readonly query?: Readonly<Record<string, TSchema>>;
  /** The body. Default: none is looked at. */
  readonly body?: TSchema;
  /** Media types of the body, the usual one first. Default: JSON. */
  readonly bodyTypes?: readonly string[];
  /** What is answered. Default: anything. */
  readonly answer?: TSchema;
  /** Media types of the answer. Default: JSON. */
  readonly answerTypes?: readonly string[];
  /** Of an answer. Default 200. */
  readonly status?: number;
  /** What is answered to whom it refuses, by media type. Default: {@link usualRefusal}. */
  readonly refusal?: Readonly<Record<string, TSchema>>;
  /** For a path with `:method`: what each of some values takes. */
  readonly variants?: Readonly<Record<string, Pick<RouteOperation, 'access' | 'body'>>>;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the route is, for whoever reads /openapi.json; also in routes of plugins. */
    readonly openapi?: RouteOperation;
  }
}

// OpenAPI 3.1 of the routes that are there: each says what it is, and its schema validates.

/** A route as it was registered. */
interface DescribedRoute {
  readonly method: string;
  /** With `:name` and `*`. */
  readonly path: string;
  readonly operation: RouteOperation;
}

type Json = Readonly<Record<string, unknown>>;

const schemes: Json = {
  session: { type: 'apiKey', in: 'header', name: 'X-Auth-Token' },
  cookie: { type: 'apiKey', in: 'cookie', name: 'session_id' },
  token: { type: 'http', scheme: 'bearer' },
};

const security: Readonly<Record<RouteAccess, readonly Json[]>> = {
  anybody: [],
  // In the body: OpenAPI has no word for it.
  credentials: [],
  session: [{ session: [] }, { cookie: [] }],
  token: [{ token: [] }, { session: [] }],
};

/** Takes down the routes that are registered from now on. @returns the document of them */
export function describeRoutes(app: FastifyInstance): (title: string, version: string) => Json {
  const routes: DescribedRoute[] = [];
  app.addHook('onRoute', ({ method, url, config }) => {
    const operation = config?.openapi;
    if (operation === undefined || typeof method !== 'string') return;
    if (method !== 'HEAD') routes.push({ method, path: url, operation });
  });
  return (title, version) => ({
    openapi: '3.1.0',
    info: { title, version },
    paths: pathsOf(routes),
    components: { securitySchemes: schemes },
  });
}

function pathsOf(routes: readonly DescribedRoute[]): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const { method, path, operation } of routes.flatMap(expand)) {
    const plain = path.replace(/(.)\/$/, '$1');
    const name = plain.replace(/:(\w+)/g, '{$1}').replace('*', '{path}');
    paths[name] = { ...paths[name], [method.toLowerCase()]: describeOperation(name, operation) };
  }
  return paths;
}

/** A route whose last part says what is done is one path for each of them. */
function expand(route: DescribedRoute): DescribedRoute[] {
  const { variants, ...common } = route.operation;
  if (variants === undefined) return [route];
  return Object.entries(variants).map(([name, own]) => ({
    method: route.method,
    path: route.path.replace(/:\w+$/, name),
    operation: { ...common, ...own },
  }));
}

function describeOperation(path: string, operation: RouteOperation): Json {
  const { summary, access, query = {}, body, answer = {}, status = 200 } = operation;
  const { bodyTypes = ['application/json'], answerTypes = ['application/json'] } = operation;
  const { refusal = usualRefusal } = operation;
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const inQuery = Object.entries(query).map(([name, schema]) => ({ name, in: 'query', schema }));
  return {
    summary,
    parameters: [...inPath, ...inQuery],
    ...(body === undefined ? {} : { requestBody: { content: contentOf(bodyTypes, body) } }),
    responses: {
      [status]: { description: 'Done', content: contentOf(answerTypes, answer) },
      default: {
        description: 'Refused; see docs/errors.md',
        content: schemasOf(refusal),
      },
    },
    security: security[access],
  };
}

function contentOf(types: readonly string[], schema: TSchema | Json): Json {
  return schemasOf(Object.fromEntries(types.map((type) => [type, schema])));
}

function schemasOf(content: Readonly<Record<string, TSchema | Json>>): Json {
  return Object.fromEntries(Object.entries(content).map(([type, schema]) => [type, { schema }]));
}
