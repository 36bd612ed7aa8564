/** Commands over HTTP, by the token of whoever calls. */
import type { FastifyInstance } from 'fastify';
import { type ExtensionHost, toJson } from '../../master/index.ts';
import type { CommandInfo } from '../catalog/describe.ts';
import type { CommandApi } from '../run/command-api.ts';
import type { CommandHandle } from '../run/request.ts';
import { begunRun } from '../run/rpc.ts';
import { callerFinder, requireRule } from './callers.ts';
import { commandOperations as about, readRun } from './command-operations.ts';
import type { HttpDoors } from './doors.ts';
import { UpdateStreams } from './update-stream.ts';

/** Bytes of a body. */
const bodyLimit = 1_048_576;

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
  const streams = new UpdateStreams(doors);
  const known = callerFinder(doors, host);
  app.get('/commands', { config: about.list }, async (request) => {
    const caller = await known(request);
    return {
      commands: api
        .list()
        .filter(({ name }) => caller.mayCall(name))
        .map(toCallers),
    };
  });
  app.get<{ Params: { name: string } }>(
    '/commands/:name',
    { config: about.show },
    async (request) => {
      const { name } = request.params;
      // protection: commands-shown-to-all
      requireRule(await known(request), name);
      return toCallers(api.show(name));
    },
  );
  app.post<{ Params: { name: string } }>(
    '/commands/:name/run',
    { bodyLimit, config: about.run },
    async (request, reply) => {
      const caller = await known(request);
      requireRule(caller, request.params.name);
      const asked = readRun(request.body);
      const run = (): Promise<CommandHandle> => api.run(request.params.name, { ...asked, caller });
      if (request.headers.prefer !== 'respond-async')
        return streams.send(reply, caller.token, run, begunRun);
      return reply.code(202).send(begunRun(await run()));
    },
  );
  app.get<{ Params: { id: string } }>(
    '/runs/:id',
    { config: about.follow },
    async (request, reply) => {
      const caller = await known(request);
      const find = () => api.find(request.params.id, caller);
      return streams.send(reply, caller.token, find, begunRun);
    },
  );
  app.delete<{ Params: { id: string } }>('/runs/:id', { config: about.cancel }, async (request) => {
    const handle = await api.find(request.params.id, await known(request));
    await handle.cancel();
    return toJson(await handle.outcome);
  });
}

/** Which minions the operator means, and why a function is exposed, is not for callers. */
function toCallers({
  within: _within,
  reviewed: _reviewed,
  ...info
}: CommandInfo): Omit<CommandInfo, 'reviewed' | 'within'> {
  return info;
}
