/** Schemas of the routes of Salt's HTTP API, for /openapi.json. */

import type { FastifySchema } from 'fastify';
import type { TSchema } from 'typebox';
import Type from 'typebox';
import type { RpcMethod } from '#master';
import { commandSchemas } from '../command-fields.ts';
import { describeRoute } from './route.ts';

const bodyTypes = [
  'application/json',
  'application/x-yaml',
  'application/x-www-form-urlencoded',
] as const;
const answerTypes = ['application/json', 'application/x-yaml'] as const;
const formats = { bodyTypes, answerTypes };
const text: TSchema = Type.String();
/**
 * Warnings about parts of targets that were left out: ids without an accepted key, and minions for
 * which the caller has no rights.
 */
const warnings = Type.Optional(Type.Array(Type.String()));
const returned: TSchema = Type.Object({ return: Type.Array(Type.Unknown()), warnings });
const credentials = {
  username: Type.String(),
  password: Type.String(),
  eauth: Type.String(),
};

/**
 * Returns the schema of commands for all served clients. A body is one command or a list of
 * commands.
 */
function commandsBody(
  clients: ReadonlySet<string>,
  more: Readonly<Record<string, TSchema>> = {},
): TSchema {
  const commands = [...commandSchemas]
    .filter(([client]) => clients.has(client))
    .map(([client, schema]) =>
      Type.Intersect([schema, Type.Object({ client: Type.Literal(client), ...more })]),
    );
  const command = Type.Union(commands);
  return Type.Union([command, Type.Array(command)]);
}

const inBody = { username: text, password: text, eauth: text, token: text };
const optionalInBody: Readonly<Record<string, TSchema>> = Object.fromEntries(
  Object.entries(inBody).map(([name, schema]) => [name, Type.Optional(schema)]),
);

/** Schema of `GET /`, which lists the served clients. */
export const welcomeSchema: FastifySchema = describeRoute({
  summary: 'Names of the served clients',
  access: 'anybody',
  answer: Type.Object({ return: text, clients: Type.Array(text) }),
  answerTypes,
});

export function commandSchema(clients: ReadonlySet<string>): FastifySchema {
  return describeRoute({
    summary: 'Executes commands in order, with the rights of the session',
    access: 'session',
    body: commandsBody(clients),
    answer: returned,
    ...formats,
  });
}

export function runSchema(clients: ReadonlySet<string>): FastifySchema {
  return describeRoute({
    summary: 'Executes commands in order; each contains its own credentials or token',
    access: 'credentials',
    body: commandsBody(clients, optionalInBody),
    answer: returned,
    ...formats,
  });
}

const Login = Type.Object({
  ...credentials,
  token_expire: Type.Optional(Type.Union([Type.Number(), Type.String()])),
});

export const loginSchema: FastifySchema = describeRoute({
  summary: 'Logs in; the session token is in the response, in X-Auth-Token and in a cookie',
  access: 'credentials',
  body: Login,
  answer: Type.Object({
    return: Type.Array(
      Type.Object({
        token: text,
        start: Type.Number(),
        expire: Type.Number(),
        user: text,
        eauth: text,
        perms: Type.Unknown(),
      }),
    ),
  }),
  ...formats,
});

export const loginHintSchema: FastifySchema = describeRoute({
  summary: 'Returns the message that a log-in is required',
  access: 'anybody',
  answerTypes,
});

export const logoutSchema: FastifySchema = describeRoute({
  summary: 'Ends the session',
  access: 'session',
  answer: Type.Object({ return: text }),
  answerTypes,
});

export const tokenSchema: FastifySchema = describeRoute({
  summary: "Logs in and returns Salt's tokens, for use with /run",
  access: 'credentials',
  body: Type.Union([Login, Type.Array(Login)]),
  answer: Type.Array(
    Type.Object({
      start: Type.Number(),
      expire: Type.Number(),
      name: text,
      eauth: text,
      groups: Type.Optional(Type.Array(text)),
      token: text,
    }),
  ),
  ...formats,
});

const reading = { access: 'session', answer: returned, answerTypes } as const;

export const minionsSchema: FastifySchema = describeRoute({
  ...reading,
  summary: 'Grains of minions',
  query: { mid: text },
});

export const publishSchema: FastifySchema = describeRoute({
  summary: 'Starts jobs on minions without waiting for their returns',
  access: 'session',
  body: commandSchemas.get('local_async') ?? Type.Unknown(),
  answer: Type.Object({ return: Type.Array(Type.Unknown()), warnings, _links: Type.Unknown() }),
  status: 202,
  ...formats,
});

export const jobsSchema: FastifySchema = describeRoute({
  ...reading,
  summary: 'Stored jobs, or one job with its returns',
  query: { jid: text },
});

export const keysSchema: FastifySchema = describeRoute({
  ...reading,
  summary: 'Keys by state, or fingerprints of the keys that match a glob',
  query: { mid: text },
  answer: Type.Object({ return: Type.Unknown() }),
});

export const newKeysSchema: FastifySchema = describeRoute({
  summary: 'Creates a key pair for a minion, accepts it, and returns it as a tar archive',
  access: 'credentials',
  body: Type.Object({
    mid: text,
    keysize: Type.Optional(Type.Integer({ minimum: 2048, maximum: 8192 })),
    force: Type.Optional(Type.Boolean()),
    ...optionalInBody,
  }),
  bodyTypes,
  answerTypes: ['application/x-tar'],
});

export const statsSchema: FastifySchema = describeRoute({
  ...reading,
  summary: 'Status and statistics of the master',
  answer: Type.Object({}),
});

export const eventsSchema: FastifySchema = describeRoute({
  summary: 'Server-sent events: the events of the master',
  access: 'session',
  query: { match: text, last_event_id: text, token: text, salt_token: text },
  answer: text,
  answerTypes: ['text/event-stream'],
});

export const hookSchema: FastifySchema = describeRoute({
  summary: 'Publishes the request as the event salt/netapi/hook/…',
  access: 'session',
  body: Type.Unknown(),
  answer: Type.Object({ success: Type.Boolean() }),
  ...formats,
});

export const healthSchema: FastifySchema = describeRoute({
  summary: '/health: the server responds. /ready: the master is ready (503 if not)',
  access: 'anybody',
  answer: Type.Object({ status: text }),
  answerTypes,
});

export const fileSchema: FastifySchema = describeRoute({
  summary: 'Public files',
  access: 'anybody',
  answerTypes: ['*/*'],
});

export const openapiSchema: FastifySchema = describeRoute({
  summary: 'This document',
  access: 'anybody',
  answer: Type.Object({ openapi: text }),
});

/**
 * Returns the schemas of the methods in the master's interface. Omits methods that may only be
 * called on the master's host.
 */
export function rpcSchemas(
  methods: ReadonlyMap<string, RpcMethod>,
): ReadonlyMap<string, FastifySchema> {
  const operations = new Map<string, FastifySchema>();
  for (const [name, { parameters: body, access }] of methods) {
    if (access === 'host') continue;
    operations.set(
      name,
      describeRoute({
        summary:
          'Calls a method of the RPC interface, as saltbridge/client does; streams are lines of JSON',
        access: access === 'anybody' ? 'credentials' : 'token',
        body,
        refusal: {
          'application/json': Type.Object({ error: Type.Object({ code: text, message: text }) }),
        },
        answerTypes: ['application/json', 'application/x-ndjson'],
      }),
    );
  }
  return operations;
}

export const metricsSchema: FastifySchema = describeRoute({
  summary: "Metrics in Prometheus' text format; the option `metrics` determines who may read them",
  access: 'anybody',
  answer: text,
  answerTypes: ['text/plain'],
});
