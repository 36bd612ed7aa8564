/** Runs of commands and plans over HTTP, by the token of whoever calls. */

import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import Type, { type TSchema } from 'typebox';
import { type ExtensionHost, type HttpServerContext, toJson } from '#master';
import { createCallerResolver, type HttpCaller } from './http-caller.ts';
import { describeRoute } from './route-schema.ts';
import { UpdateStreams } from './update-stream.ts';

/** Bytes of a body. */
const bodyLimit = 1_048_576;

/** Fields of the body that begins a run, of a command or a plan. */
export const runFields = {
  params: Type.Optional(Type.Object({})),
  idempotencyKey: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
  project: Type.Optional(Type.String({ maxLength: 255 })),
  /** Milliseconds since 1970. */
  deadline: Type.Optional(Type.Number({ minimum: 0 })),
};

/** A run, for a caller who follows it. */
interface FollowedRun {
  readonly outcome: Promise<object>;
  updates(): AsyncIterable<object>;
}

/** Commands or plans, as their routes need them. */
export interface RunRoutes<Run extends FollowedRun> {
  /** Name of the collection in paths: `commands`. */
  readonly collection: string;
  /** Name of the runs in paths: `runs`. */
  readonly runs: string;
  /** Noun in the descriptions of the routes: `plan`. */
  readonly noun: string;
  readonly info: TSchema;
  readonly body: TSchema;
  readonly outcome: TSchema;
  /** Lines of a run, without those of its beginning and of an error. */
  readonly updates: readonly TSchema[];
  /** Fields of the first line. */
  readonly begun: Readonly<Record<string, TSchema>>;
  /** Query of the route that ends a run. */
  readonly cancelQuery?: Readonly<Record<string, TSchema>>;
  /** Returns what this caller may run. */
  readonly list: (caller: HttpCaller) => object;
  /** @throws BridgeError for one that the caller may not run */
  readonly show: (caller: HttpCaller, name: string) => object;
  /** Reads the body of a request for a run. @returns a function that begins the run */
  readonly read: (caller: HttpCaller, name: string, body: unknown) => () => Promise<Run>;
  /** @throws BridgeError ERR_RUN_UNKNOWN */
  readonly find: (id: string, caller: HttpCaller) => Promise<Run>;
  /** Returns the first line of a run. */
  readonly first: (run: Run) => object;
  readonly cancel: (run: Run, query: Readonly<Record<string, string>>) => Promise<void>;
}

interface RunRequest {
  readonly Params: { readonly id: string; readonly name: string };
  readonly Querystring: Readonly<Record<string, string>>;
}

/**
 * `GET` the collection and a name in it, `POST <name>/run`, `GET` and `DELETE` a run, and `GET` its
 * outcome.
 */
export function addRunRoutes<Run extends FollowedRun>(
  app: FastifyInstance,
  server: HttpServerContext,
  host: Pick<ExtensionHost, 'holdToken'>,
  kind: RunRoutes<Run>,
): void {
  const { collection, runs } = kind;
  const schemas = schemasOf(kind);
  const streams = new UpdateStreams(server);
  const known = createCallerResolver(server, host);
  const found = async (request: FastifyRequest<RunRequest>): Promise<Run> =>
    kind.find(request.params.id, await known(request));
  app.get(`/${collection}`, { schema: schemas.list }, async (request) =>
    kind.list(await known(request)),
  );
  app.get<RunRequest>(`/${collection}/:name`, { schema: schemas.show }, async (request) =>
    kind.show(await known(request), request.params.name),
  );
  app.post<RunRequest>(
    `/${collection}/:name/run`,
    { bodyLimit, schema: schemas.run },
    async (request, reply) => {
      const { params, body, headers } = request;
      const caller = await known(request);
      kind.show(caller, params.name);
      const begin = kind.read(caller, params.name, body);
      if (headers.prefer === 'respond-async')
        return reply.code(202).send(kind.first(await begin()));
      return streams.send(reply, caller.token, begin, kind.first);
    },
  );
  app.get<RunRequest>(`/${runs}/:id`, { schema: schemas.follow }, async (request, reply) => {
    const caller = await known(request);
    const find = (): Promise<Run> => kind.find(request.params.id, caller);
    return streams.send(reply, caller.token, find, kind.first);
  });
  app.get<RunRequest>(`/${runs}/:id/outcome`, { schema: schemas.outcome }, async (request) =>
    currentRunState((await found(request)).outcome),
  );
  app.delete<RunRequest>(`/${runs}/:id`, { schema: schemas.cancel }, async (request) => {
    const run = await found(request);
    await kind.cancel(run, request.query);
    return toJson(await run.outcome);
  });
}

function schemasOf({
  collection,
  noun,
  info,
  body,
  outcome,
  updates,
  begun,
  cancelQuery,
}: Omit<RunRoutes<FollowedRun>, 'cancel' | 'find' | 'first' | 'list' | 'read' | 'show'>): Readonly<
  Record<'list' | 'show' | 'run' | 'follow' | 'outcome' | 'cancel', FastifySchema>
> {
  const lines = [
    Type.Object({
      type: Type.Literal('begun'),
      id: Type.String(),
      ...begun,
      isRepeated: Type.Boolean(),
    }),
    ...updates,
    Type.Object({ type: Type.Literal('error'), code: Type.String(), message: Type.String() }),
  ];
  const stream = { answer: Type.Union(lines), answerTypes: ['application/x-ndjson'] };
  return {
    list: describeRoute({
      summary: `The ${collection} of the catalog`,
      answer: Type.Object({ [collection]: Type.Array(info) }),
    }),
    show: describeRoute({ summary: `One ${noun}`, answer: info }),
    run: describeRoute({
      summary: `Runs a ${noun}; with Prefer: respond-async (202) answers only that it has begun`,
      body,
      ...stream,
    }),
    follow: describeRoute({
      summary: `Updates of a run of the caller's ${noun}, from its beginning`,
      ...stream,
    }),
    outcome: describeRoute({
      summary: `Whether a run of the caller's ${noun} has ended, and its outcome; answers at once`,
      answer: runStateSchema(outcome),
    }),
    cancel: describeRoute({
      summary: `Ends a run of the caller's ${noun}`,
      ...(cancelQuery === undefined ? {} : { query: cancelQuery }),
      answer: outcome,
    }),
  };
}

/** The answer's schema. @param outcome - schema of the outcome */
function runStateSchema(outcome: TSchema): TSchema {
  return Type.Union([
    Type.Object({ state: Type.Literal('running') }),
    Type.Object({ state: Type.Literal('ended'), outcome }),
  ]);
}

/**
 * Returns at once, whether or not the run has ended.
 * @param outcome - rejects where the master failed; so does the promise returned
 */
async function currentRunState(outcome: Promise<object>): Promise<object> {
  // Of two settled promises, `race` takes the first.
  const ended = await Promise.race([outcome, Promise.resolve(undefined)]);
  return ended === undefined ? { state: 'running' } : { state: 'ended', outcome: toJson(ended) };
}
