/** Commands over HTTP, by the token of whoever calls. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { type ExtensionHost, toJson } from '../../master/index.ts';
import type { WireValue } from '../../minion-protocol/index.ts';
import type { Parameters } from '../catalog/argument-values.ts';
import { BridgeError } from '../errors.ts';
import type { CommandApi } from '../run/command-api.ts';
import type { CommandHandle, CommandRequest } from '../run/request.ts';
import { begunRun } from '../run/rpc.ts';
import type { HttpDoors } from './doors.ts';
import { UpdateStreams } from './update-stream.ts';

/** Bytes of a body. */
const bodyLimit = 1_048_576;

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const RunForm = Type.Object(
  {
    target: Type.Union([Text, Type.Array(Text, { minItems: 1, maxItems: 100_000 })]),
    targetType: Type.Optional(Text),
    params: Type.Optional(Type.Object({})),
    idempotencyKey: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    project: Type.Optional(Type.String({ maxLength: 255 })),
    /** Milliseconds since 1970. */
    deadline: Type.Optional(Type.Number({ minimum: 0 })),
  },
  strict,
);
const runForm = Compile(RunForm);

/** What routes of commands work with. */
export interface CommandRouteParts {
  readonly api: CommandApi;
  readonly host: Pick<ExtensionHost, 'holdToken'>;
}

/** `GET commands`, `GET commands/<name>`, `POST commands/<name>/run`, `GET` and `DELETE runs/<id>`. */
export function addCommandRoutes(
  app: FastifyInstance,
  doors: HttpDoors,
  { api, host }: CommandRouteParts,
): void {
  const streams = new UpdateStreams(doors.closing);
  const follow = (reply: FastifyReply, handle: CommandHandle): Promise<FastifyReply> =>
    streams.send(reply, { begun: begunRun(handle), updates: handle.updates });
  /** Of somebody who may log in: what there is to be called is no secret to them. */
  const known = async (request: FastifyRequest): Promise<{ readonly token: string }> => {
    const token = doors.tokenOf(request) ?? '';
    (await host.holdToken(token)).stop();
    return { token };
  };
  app.get('/commands', async (request) => {
    await known(request);
    return { commands: api.list() };
  });
  app.get<{ Params: { name: string } }>('/commands/:name', async (request) => {
    await known(request);
    return api.show(request.params.name);
  });
  app.post<{ Params: { name: string } }>(
    '/commands/:name/run',
    { bodyLimit },
    async (request, reply) => {
      const caller = await known(request);
      const asked = requestOf(request.body);
      const handle = await api.run(request.params.name, { ...asked, caller });
      if (request.headers.prefer === 'respond-async') return reply.code(202).send(begunRun(handle));
      return follow(reply, handle);
    },
  );
  app.get<{ Params: { id: string } }>('/runs/:id', async (request, reply) =>
    follow(reply, await api.find(request.params.id, await known(request))),
  );
  app.delete<{ Params: { id: string } }>('/runs/:id', async (request) => {
    const handle = await api.find(request.params.id, await known(request));
    await handle.cancel();
    return toJson((await handle.outcome) as unknown as WireValue); // made of Salt's values
  });
}

/** @throws BridgeError ERR_COMMAND_PARAMETERS, without a value */
function requestOf(body: unknown): CommandRequest {
  const [first] = runForm.Errors(body);
  if (first !== undefined) {
    const place = first.instancePath.slice(1) || 'the body';
    // What no schema describes is measured against the schema `false`.
    const problem = first.keyword === 'boolean' ? 'there is no such field' : first.message;
    const name = first.keyword === 'boolean' ? 'a field' : place;
    throw new BridgeError('ERR_COMMAND_PARAMETERS', `${name}: ${problem}`);
  }
  const { target, targetType, params, ...rest }: Static<typeof RunForm> = runForm.Parse(body);
  const tgtType = targetType ?? (typeof target === 'string' ? 'glob' : 'list');
  // JSON, as it came; the command's schema looks at it.
  return { ...rest, target: { tgt: target, tgtType }, params: (params ?? {}) as Parameters };
}
