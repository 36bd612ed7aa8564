/** Plans over HTTP, by the token of whoever calls. */
import type { FastifyInstance } from 'fastify';
import { type ExtensionHost, toJson } from '../../master/index.ts';
import type { PlanApi } from '../plans/plan-api.ts';
import type { PlanHandle } from '../plans/request.ts';
import { begunPlan } from '../plans/rpc.ts';
import { callerFinder } from './callers.ts';
import type { HttpDoors } from './doors.ts';
import { planOperations as about, readPlanRun } from './plan-operations.ts';
import { UpdateStreams } from './update-stream.ts';

/** Bytes of a body. */
const bodyLimit = 1_048_576;

/** What routes of plans work with. */
export interface PlanRouteParts {
  readonly api: PlanApi;
  readonly host: Pick<ExtensionHost, 'holdToken'>;
}

/**
 * `GET plans`, `GET plans/<name>`, `POST plans/<name>/run`, `GET` and `DELETE plan-runs/<id>`, the
 * last with `?undo=false` where nothing is to be taken back.
 */
export function addPlanRoutes(
  app: FastifyInstance,
  doors: HttpDoors,
  { api, host }: PlanRouteParts,
): void {
  const streams = new UpdateStreams(doors);
  const known = callerFinder(doors, host);
  app.get('/plans', { config: about.list }, async (request) => {
    await known(request);
    return { plans: api.list() };
  });
  app.get<{ Params: { name: string } }>('/plans/:name', { config: about.show }, async (request) => {
    await known(request);
    return api.show(request.params.name);
  });
  app.post<{ Params: { name: string } }>(
    '/plans/:name/run',
    { bodyLimit, config: about.run },
    async (request, reply) => {
      const caller = await known(request);
      const asked = readPlanRun(request.body);
      const run = (): Promise<PlanHandle> => api.run(request.params.name, { ...asked, caller });
      if (request.headers.prefer !== 'respond-async')
        return streams.send(reply, caller.token, run, begunPlan);
      return reply.code(202).send(begunPlan(await run()));
    },
  );
  app.get<{ Params: { id: string } }>(
    '/plan-runs/:id',
    { config: about.follow },
    async (request, reply) => {
      const caller = await known(request);
      const find = () => api.find(request.params.id, caller);
      return streams.send(reply, caller.token, find, begunPlan);
    },
  );
  app.delete<{ Params: { id: string }; Querystring: { undo?: string } }>(
    '/plan-runs/:id',
    { config: about.cancel },
    async (request) => {
      const handle = await api.find(request.params.id, await known(request));
      await handle.cancel({ undo: request.query.undo !== 'false' });
      return toJson(await handle.outcome);
    },
  );
}
