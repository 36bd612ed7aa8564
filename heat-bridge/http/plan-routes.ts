/** Plans over HTTP, by the token of whoever calls. */
import type { FastifyInstance } from 'fastify';
import { type ExtensionHost, toJson } from '../../master/index.ts';
import { BridgeError } from '../errors.ts';
import type { PlanInfo } from '../plans/describe.ts';
import type { PlanApi } from '../plans/plan-api.ts';
import type { PlanHandle } from '../plans/request.ts';
import { begunPlan } from '../plans/rpc.ts';
import { callerFinder, type HttpCaller } from './callers.ts';
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
  const shown = (caller: HttpCaller, name: string): PlanInfo => {
    const plan = api.list().find((it) => it.name === name && mayRun(caller, it));
    // One that the caller may not run is as unknown as one that is not there.
    if (plan === undefined) throw new BridgeError('ERR_PLAN_UNKNOWN', 'no such plan of yours');
    return plan;
  };
  app.get('/plans', { config: about.list }, async (request) => {
    const caller = await known(request);
    return { plans: api.list().filter((plan) => mayRun(caller, plan)) };
  });
  app.get<{ Params: { name: string } }>('/plans/:name', { config: about.show }, async (request) => {
    return shown(await known(request), request.params.name);
  });
  app.post<{ Params: { name: string } }>(
    '/plans/:name/run',
    { bodyLimit, config: about.run },
    async (request, reply) => {
      const caller = await known(request);
      shown(caller, request.params.name);
      const asked = readPlanRun(request.body);
      const run = (): Promise<PlanHandle> => api.run(request.params.name, { ...asked, caller });
      if (request.headers.prefer !== 'respond-async') {
        return streams.send(reply, caller.token, run, begunPlan);
      }
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

/** Whether the caller may call each of its commands. */
function mayRun(caller: HttpCaller, { steps }: PlanInfo): boolean {
  return steps.every(
    ({ command, undo }) => caller.mayCall(command) && (undo === undefined || caller.mayCall(undo)),
  );
}
