/** HTTP routes of runs of commands and plans. The caller's token authorises each request. */

import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import Type, { type TSchema } from 'typebox';
import type { ExtensionHost } from '#master';
import { createCallerResolver, type HttpCaller } from './http-caller.ts';
import { MarkedLines } from './marked-lines.ts';
import { describeRoute } from './route-schema.ts';
import { UpdateStreams } from './update-stream.ts';
import type { BridgeHttpContext } from './written-answers.ts';

/** Maximum size of a request body, in bytes. */
const bodyLimit = 1_048_576;

/** Fields of the body with which a run of a command or plan is started. */
export const runFields = {
  params: Type.Optional(Type.Object({})),
  idempotencyKey: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
  project: Type.Optional(Type.String({ maxLength: 255 })),
  /** Deadline, in milliseconds since 1970. */
  deadline: Type.Optional(Type.Number({ minimum: 0 })),
};

/** Handle of a run whose updates are streamed. */
interface FollowedRun {
  readonly outcome: Promise<object>;
  updates(): AsyncIterable<object>;
}

/** Description of commands or plans, with the functions that their routes call. */
export interface RunRoutes<Run extends FollowedRun> {
  /** Name of the collection of commands or plans in paths, for example `commands`. */
  readonly collection: string;
  /** Name of the collection of runs in paths, for example `runs`. */
  readonly runs: string;
  /** Noun for summaries of the routes, for example `plan`. */
  readonly noun: string;
  readonly info: TSchema;
  readonly body: TSchema;
  readonly outcome: TSchema;
  /** Schemas of the lines that a run streams, except the first line and errors. */
  readonly updates: readonly TSchema[];
  /** Fields of the first line of the response that streams the updates of a run. */
  readonly begun: Readonly<Record<string, TSchema>>;
  /** Query fields of the route that cancels a run. */
  readonly cancelQuery?: Readonly<Record<string, TSchema>>;
  /** Returns descriptions of the commands or plans that this caller may run. */
  readonly list: (caller: HttpCaller) => object;
  /**
   * Returns the description of a command or plan.
   * @throws BridgeError if the caller may not run it
   */
  readonly show: (caller: HttpCaller, name: string) => object;
  /**
   * Parses the body of a request for a run.
   * @returns a function that starts the run
   */
  readonly read: (caller: HttpCaller, name: string, body: unknown) => () => Promise<Run>;
  /**
   * Returns the handle of a run that the caller started.
   * @throws BridgeError ERR_RUN_UNKNOWN
   */
  readonly find: (id: string, caller: HttpCaller) => Promise<Run>;
  /** Returns the first line that a run streams. */
  readonly first: (run: Run) => object;
  readonly cancel: (run: Run, query: Readonly<Record<string, string>>) => Promise<void>;
}

const stateHead = Buffer.from('{"state":"ended","outcome":');
const stateTail = Buffer.from('}');

interface RunRequest {
  readonly Params: { readonly id: string; readonly name: string };
  readonly Querystring: Readonly<Record<string, string>>;
}

/**
 * Adds the routes `GET` on the collection, `GET` on a name, and `POST <name>/run`. For runs, adds
 * `GET`, `DELETE` (cancels the run), and `GET` on the outcome.
 */
export function addRunRoutes<Run extends FollowedRun>(
  app: FastifyInstance,
  server: BridgeHttpContext,
  host: Pick<ExtensionHost, 'holdToken'>,
  kind: RunRoutes<Run>,
): void {
  const { collection, runs } = kind;
  const schemas = schemasOf(kind);
  const lines = new MarkedLines();
  const streams = new UpdateStreams(server, lines);
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
      return streams.send(reply, caller, begin, kind.first);
    },
  );
  app.get<RunRequest>(`/${runs}/:id`, { schema: schemas.follow }, async (request, reply) => {
    const caller = await known(request);
    const find = (): Promise<Run> => kind.find(request.params.id, caller);
    return streams.send(reply, caller, find, kind.first);
  });
  // Responses with the same outcome share its bytes.
  const sendJson = async (reply: FastifyReply, pieces: readonly Buffer[]) => {
    const length = pieces.reduce((sum, { byteLength }) => sum + byteLength, 0);
    await server.holdAnswer(reply, (take) => take(length));
    reply.type('application/json; charset=utf-8').header('content-length', length);
    return reply.send(Readable.from(slicesOf(pieces)));
  };
  const sendState = async (reply: FastifyReply, outcome: object | undefined) => {
    if (outcome === undefined) return reply.send({ state: 'running' });
    const json = await lines.jsonOf(outcome);
    return sendJson(reply, [stateHead, json, stateTail]);
  };
  app.get<RunRequest>(`/${runs}/:id/outcome`, { schema: schemas.outcome }, async (request, reply) =>
    sendState(reply, await currentOutcome((await found(request)).outcome)),
  );
  app.delete<RunRequest>(`/${runs}/:id`, { schema: schemas.cancel }, async (request, reply) => {
    const run = await found(request);
    await kind.cancel(run, request.query);
    return sendJson(reply, [await lines.jsonOf(await run.outcome)]);
  });
}

/** Maximum size of a piece that is written at a time, in bytes. TLS copies each piece. */
const sliceBytes = 65_536;

function* slicesOf(pieces: readonly Buffer[]): Generator<Buffer, void, void> {
  for (const piece of pieces) {
    for (let from = 0; from < piece.length; from += sliceBytes) {
      yield piece.subarray(from, from + sliceBytes);
    }
  }
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
      summary: `Lists the ${collection} of the catalog`,
      answer: Type.Object({ [collection]: Type.Array(info) }),
    }),
    show: describeRoute({ summary: `Returns one ${noun}`, answer: info }),
    run: describeRoute({
      summary: `Runs a ${noun}; with Prefer: respond-async, returns 202 as soon as it has started`,
      body,
      ...stream,
    }),
    follow: describeRoute({
      summary: `Streams the updates of a run of the caller's ${noun}, from its start`,
      ...stream,
    }),
    outcome: describeRoute({
      summary: `Returns immediately whether a run of the caller's ${noun} has ended, and its outcome`,
      answer: runStateSchema(outcome),
    }),
    cancel: describeRoute({
      summary: `Cancels a run of the caller's ${noun}`,
      ...(cancelQuery === undefined ? {} : { query: cancelQuery }),
      answer: outcome,
    }),
  };
}

/**
 * Returns the schema of the state of a run.
 * @param outcome - schema of the outcome
 */
function runStateSchema(outcome: TSchema): TSchema {
  return Type.Union([
    Type.Object({ state: Type.Literal('running') }),
    Type.Object({ state: Type.Literal('ended'), outcome }),
  ]);
}

/**
 * Returns the outcome of a run if the run has ended, and otherwise `undefined`. Does not wait for
 * the end.
 * @param outcome - promise of the run's outcome. If it rejects, which means an internal error of
 * the master, the returned promise rejects too.
 */
async function currentOutcome(outcome: Promise<object>): Promise<object | undefined> {
  // If both promises are settled, `race` takes the first one.
  return Promise.race([outcome, Promise.resolve(undefined)]);
}
