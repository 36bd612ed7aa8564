/** OpenAPI 3.1 of the routes that are there: each says what it is, and its schema validates. */
import type { FastifyInstance } from 'fastify';
import type { TSchema } from 'typebox';
import { type Operation, type OperationAccess, usualRefusal } from './operation.ts';

/** A route as it was registered. */
interface Described {
  readonly method: string;
  /** With `:name` and `*`. */
  readonly path: string;
  readonly operation: Operation;
}

type Json = Readonly<Record<string, unknown>>;

const schemes: Json = {
  session: { type: 'apiKey', in: 'header', name: 'X-Auth-Token' },
  cookie: { type: 'apiKey', in: 'cookie', name: 'session_id' },
  token: { type: 'http', scheme: 'bearer' },
};

const security: Readonly<Record<OperationAccess, readonly Json[]>> = {
  anybody: [],
  // In the body: OpenAPI has no word for it.
  credentials: [],
  session: [{ session: [] }, { cookie: [] }],
  token: [{ token: [] }, { session: [] }],
};

/** Takes down the routes that are registered from now on. @returns the document of them */
export function describeRoutes(app: FastifyInstance): (title: string, version: string) => Json {
  const routes: Described[] = [];
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

function pathsOf(routes: readonly Described[]): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const { method, path, operation } of routes.flatMap(expand)) {
    const plain = path.replace(/(.)\/$/, '$1');
    const name = plain.replace(/:(\w+)/g, '{$1}').replace('*', '{path}');
    paths[name] = { ...paths[name], [method.toLowerCase()]: describe(name, operation) };
  }
  return paths;
}

/** A route whose last part says what is done is one path for each of them. */
function expand(route: Described): Described[] {
  const { variants, ...common } = route.operation;
  if (variants === undefined) return [route];
  return Object.entries(variants).map(([name, own]) => ({
    method: route.method,
    path: route.path.replace(/:\w+$/, name),
    operation: { ...common, ...own },
  }));
}

function describe(path: string, operation: Operation): Json {
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
