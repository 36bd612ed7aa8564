/** Plans over HTTP, by the token of whoever calls. */

import type { FastifyInstance } from 'fastify';
import { type ExtensionHost, type HttpServerContext, toJson } from '#master';
import { BridgeError } from '../errors.ts';
import { createCallerResolver, type HttpCaller } from '../http/http-caller.ts';
import { currentRunState } from '../http/run-state.ts';
import { UpdateStreams } from '../http/update-stream.ts';
import type { PlanApi } from './plan-api.ts';
import { mayRunPlan, type PlanInfo } from './plan-info.ts';
import type { PlanHandle } from './plan-request.ts';
import { parsePlanRunBody, planRouteSchemas } from './plan-route-schemas.ts';
import { firstPlanUpdate } from './plan-rpc.ts';

/** Bytes of a body. */
const bodyLimit = 1_048_576;

/** What routes of plans work with. */
export interface PlanRouteDeps {
  readonly api: PlanApi;
  readonly host: Pick<ExtensionHost, 'holdToken'>;
}

/**
 * `GET plans`, `GET plans/<name>`, `POST plans/<name>/run`, `GET plan-runs/<id>/outcome`, `GET` and
 * `DELETE plan-runs/<id>`, the last with `?undo=false` where nothing is to be taken back.
 */
export function addPlanRoutes(
  app: FastifyInstance,
  doors: HttpServerContext,
  { api, host }: PlanRouteDeps,
): void {
  const streams = new UpdateStreams(doors);
  const known = createCallerResolver(doors, host);
  const shown = (caller: HttpCaller, name: string): PlanInfo => {
    const plan = api.list().find((it) => it.name === name && mayRunPlan(it, caller.mayCall));
    // One that the caller may not run is as unknown as one that is not there.
    if (plan === undefined) throw new BridgeError('ERR_PLAN_UNKNOWN', 'no such plan of yours');
    return plan;
  };
  app.get('/plans', { schema: planRouteSchemas.list }, async (request) => {
    const caller = await known(request);
    return { plans: api.list().filter((plan) => mayRunPlan(plan, caller.mayCall)) };
  });
  app.get<{ Params: { name: string } }>(
    '/plans/:name',
    { schema: planRouteSchemas.show },
    async (request) => {
      return shown(await known(request), request.params.name);
    },
  );
  app.post<{ Params: { name: string } }>(
    '/plans/:name/run',
    { bodyLimit, schema: planRouteSchemas.run },
    async (request, reply) => {
      const caller = await known(request);
      shown(caller, request.params.name);
      const asked = parsePlanRunBody(request.body);
      const run = (): Promise<PlanHandle> => api.run(request.params.name, { ...asked, caller });
      if (request.headers.prefer !== 'respond-async') {
        return streams.send(reply, caller.token, run, firstPlanUpdate);
      }
      return reply.code(202).send(firstPlanUpdate(await run()));
    },
  );
  app.get<{ Params: { id: string } }>(
    '/plan-runs/:id',
    { schema: planRouteSchemas.follow },
    async (request, reply) => {
      const caller = await known(request);
      const find = () => api.find(request.params.id, caller);
      return streams.send(reply, caller.token, find, firstPlanUpdate);
    },
  );
  app.get<{ Params: { id: string } }>(
    '/plan-runs/:id/outcome',
    { schema: planRouteSchemas.outcome },
    async (request) => {
      const { outcome } = await api.find(request.params.id, await known(request));
      return currentRunState(outcome);
    },
  );
  app.delete<{ Params: { id: string }; Querystring: { undo?: string } }>(
    '/plan-runs/:id',
    { schema: planRouteSchemas.cancel },
    async (request) => {
      const handle = await api.find(request.params.id, await known(request));
      await handle.cancel({ undo: request.query.undo !== 'false' });
      return toJson(await handle.outcome);
    },
  );
}
