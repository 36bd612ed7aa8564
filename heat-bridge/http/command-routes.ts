/**
 * Commands over HTTP, by the token of whoever calls. What a run tells comes as lines of JSON; who
 * reads no more leaves the run to itself.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type ExtensionHost, linkSignals, toJson } from '../../master/index.ts';
import type { WireValue } from '../../minion-protocol/index.ts';
import { BridgeError } from '../errors.ts';
import type { CommandApi } from '../run/command-api.ts';
import type { CommandHandle } from '../run/request.ts';
import { begunRun } from '../run/rpc.ts';
import { commandOperations as about, readRun } from './command-operations.ts';
import type { HttpDoors } from './doors.ts';
import { problemOf } from './errors.ts';

/** Bytes of a body. */
const bodyLimit = 1_048_576;
/** Runs that are followed at a time. */
const maxReaders = 1000;

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
  const readers = { count: 0 };
  const follow = (reply: FastifyReply, handle: CommandHandle): Promise<FastifyReply> =>
    sendUpdates(reply, handle, doors.closing, readers);
  /** Of somebody who may log in: what there is to be called is no secret to them. */
  const known = async (request: FastifyRequest): Promise<{ readonly token: string }> => {
    const token = doors.tokenOf(request) ?? '';
    (await host.holdToken(token)).stop();
    return { token };
  };
  app.get('/commands', { config: about.list }, async (request) => {
    await known(request);
    return { commands: api.list() };
  });
  app.get<{ Params: { name: string } }>(
    '/commands/:name',
    { config: about.show },
    async (request) => {
      await known(request);
      return api.show(request.params.name);
    },
  );
  app.post<{ Params: { name: string } }>(
    '/commands/:name/run',
    { bodyLimit, config: about.run },
    async (request, reply) => {
      const caller = await known(request);
      const asked = readRun(request.body);
      const handle = await api.run(request.params.name, { ...asked, caller });
      if (request.headers.prefer === 'respond-async') return reply.code(202).send(begunRun(handle));
      return follow(reply, handle);
    },
  );
  app.get<{ Params: { id: string } }>(
    '/runs/:id',
    { config: about.follow },
    async (request, reply) =>
      follow(reply, await api.find(request.params.id, await known(request))),
  );
  app.delete<{ Params: { id: string } }>('/runs/:id', { config: about.cancel }, async (request) => {
    const handle = await api.find(request.params.id, await known(request));
    await handle.cancel();
    return toJson((await handle.outcome) as unknown as WireValue); // made of Salt's values
  });
}

/** @throws BridgeError ERR_COMMAND_BUSY */
async function sendUpdates(
  reply: FastifyReply,
  handle: CommandHandle,
  closing: AbortSignal,
  readers: { count: number },
): Promise<FastifyReply> {
  if (readers.count >= maxReaders) {
    throw new BridgeError('ERR_COMMAND_BUSY', 'as many runs as may be are followed');
  }
  readers.count += 1;
  reply.hijack();
  const { raw } = reply;
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) raw.setHeader(name, value);
  }
  raw.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' });
  try {
    await writeUpdates(raw, handle, closing);
  } finally {
    readers.count -= 1;
  }
  return reply;
}

async function writeUpdates(
  out: ServerResponse,
  handle: CommandHandle,
  closing: AbortSignal,
): Promise<void> {
  const gone = new AbortController();
  out.once('close', () => gone.abort());
  const end = linkSignals(gone.signal, closing).signal;
  try {
    await writeLine(out, begunRun(handle), end);
    for await (const update of handle.updates()) {
      if (end.aborted) break;
      await writeLine(out, update, end);
    }
  } catch (error) {
    const { code, message } = problemOf(error);
    if (!end.aborted) out.write(`${JSON.stringify({ type: 'error', code, message })}\n`);
  }
  out.end();
}

async function writeLine(out: ServerResponse, item: object, end: AbortSignal): Promise<void> {
  const line = JSON.stringify(toJson({ ...item } as unknown as WireValue)); // made of Salt's values
  if (!out.write(`${line}\n`)) await once(out, 'drain', { signal: end });
}
