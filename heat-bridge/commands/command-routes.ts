/** Commands over HTTP, by the token of whoever calls. */

import type { FastifyInstance } from 'fastify';
import { type ExtensionHost, type HttpServerContext, toJson } from '#master';
import { createCallerResolver, requireCommandRule } from '../http/http-caller.ts';
import { currentRunState } from '../http/run-state.ts';
import { UpdateStreams } from '../http/update-stream.ts';
import type { CommandApi } from './command-api.ts';
import type { CommandInfo } from './command-info.ts';
import type { CommandHandle } from './command-request.ts';
import { commandRouteSchemas, parseRunBody } from './command-route-schemas.ts';
import { firstRunUpdate } from './command-rpc.ts';

/** Bytes of a body. */
const bodyLimit = 1_048_576;

/** What routes of commands work with. */
export interface CommandRouteDeps {
  readonly api: CommandApi;
  readonly host: Pick<ExtensionHost, 'holdToken'>;
}

/**
 * `GET commands`, `GET commands/<name>`, `POST commands/<name>/run`, `GET` and `DELETE runs/<id>`,
 * `GET runs/<id>/outcome`.
 */
export function addCommandRoutes(
  app: FastifyInstance,
  doors: HttpServerContext,
  { api, host }: CommandRouteDeps,
): void {
  const streams = new UpdateStreams(doors);
  const known = createCallerResolver(doors, host);
  app.get('/commands', { schema: commandRouteSchemas.list }, async (request) => {
    const caller = await known(request);
    return {
      commands: api
        .list()
        .filter(({ name }) => caller.mayCall(name))
        .map(publicCommandInfo),
    };
  });
  app.get<{ Params: { name: string } }>(
    '/commands/:name',
    { schema: commandRouteSchemas.show },
    async (request) => {
      const { name } = request.params;
      requireCommandRule(await known(request), name);
      return publicCommandInfo(api.show(name));
    },
  );
  app.post<{ Params: { name: string } }>(
    '/commands/:name/run',
    { bodyLimit, schema: commandRouteSchemas.run },
    async (request, reply) => {
      const caller = await known(request);
      requireCommandRule(caller, request.params.name);
      const asked = parseRunBody(request.body);
      const run = (): Promise<CommandHandle> => api.run(request.params.name, { ...asked, caller });
      if (request.headers.prefer !== 'respond-async')
        return streams.send(reply, caller.token, run, firstRunUpdate);
      return reply.code(202).send(firstRunUpdate(await run()));
    },
  );
  app.get<{ Params: { id: string } }>(
    '/runs/:id',
    { schema: commandRouteSchemas.follow },
    async (request, reply) => {
      const caller = await known(request);
      const find = () => api.find(request.params.id, caller);
      return streams.send(reply, caller.token, find, firstRunUpdate);
    },
  );
  app.get<{ Params: { id: string } }>(
    '/runs/:id/outcome',
    { schema: commandRouteSchemas.outcome },
    async (request) => {
      const { outcome } = await api.find(request.params.id, await known(request));
      return currentRunState(outcome);
    },
  );
  app.delete<{ Params: { id: string } }>(
    '/runs/:id',
    { schema: commandRouteSchemas.cancel },
    async (request) => {
      const handle = await api.find(request.params.id, await known(request));
      await handle.cancel();
      return toJson(await handle.outcome);
    },
  );
}

/** Which minions the operator means, and why a function is exposed, is not for callers. */
function publicCommandInfo({
  within: _within,
  reviewed: _reviewed,
  ...info
}: CommandInfo): Omit<CommandInfo, 'reviewed' | 'within'> {
  return info;
}
