/** Plans over HTTP, by the token of whoever calls. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { type ExtensionHost, toJson } from '../../master/index.ts';
import type { WireValue } from '../../minion-protocol/index.ts';
import type { Parameters } from '../catalog/argument-values.ts';
import { BridgeError } from '../errors.ts';
import type { PlanApi } from '../plans/plan-api.ts';
import type { PlanHandle, PlanRequest } from '../plans/request.ts';
import { begunPlan } from '../plans/rpc.ts';
import type { HttpDoors } from './doors.ts';
import { UpdateStreams } from './update-stream.ts';

/** Bytes of a body. */
const bodyLimit = 1_048_576;

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const Target = Type.Union([
  Text,
  Type.Array(Text, { minItems: 1, maxItems: 100_000 }),
  Type.Object({ target: Text, targetType: Text }, strict),
]);
const PlanForm = Type.Object(
  {
    groups: Type.Record(Type.String(), Target, { maxProperties: 32 }),
    params: Type.Optional(Type.Object({})),
    idempotencyKey: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    project: Type.Optional(Type.String({ maxLength: 255 })),
    /** Milliseconds since 1970. */
    deadline: Type.Optional(Type.Number({ minimum: 0 })),
  },
  strict,
);
const planForm = Compile(PlanForm);

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
  const streams = new UpdateStreams(doors.closing);
  const follow = (reply: FastifyReply, handle: PlanHandle): Promise<FastifyReply> =>
    streams.send(reply, { begun: begunPlan(handle), updates: handle.updates });
  /** Of somebody who may log in: what there is to be called is no secret to them. */
  const known = async (request: FastifyRequest): Promise<{ readonly token: string }> => {
    const token = doors.tokenOf(request) ?? '';
    (await host.holdToken(token)).stop();
    return { token };
  };
  app.get('/plans', async (request) => {
    await known(request);
    return { plans: api.list() };
  });
  app.get<{ Params: { name: string } }>('/plans/:name', async (request) => {
    await known(request);
    return api.show(request.params.name);
  });
  app.post<{ Params: { name: string } }>(
    '/plans/:name/run',
    { bodyLimit },
    async (request, reply) => {
      const caller = await known(request);
      const handle = await api.run(request.params.name, { ...readPlanRun(request.body), caller });
      if (request.headers.prefer === 'respond-async')
        return reply.code(202).send(begunPlan(handle));
      return follow(reply, handle);
    },
  );
  app.get<{ Params: { id: string } }>('/plan-runs/:id', async (request, reply) =>
    follow(reply, await api.find(request.params.id, await known(request))),
  );
  app.delete<{ Params: { id: string }; Querystring: { undo?: string } }>(
    '/plan-runs/:id',
    async (request) => {
      const handle = await api.find(request.params.id, await known(request));
      await handle.cancel({ undo: request.query.undo !== 'false' });
      return toJson((await handle.outcome) as unknown as WireValue); // made of Salt's values
    },
  );
}

/** @throws BridgeError ERR_COMMAND_PARAMETERS, without a value */
function readPlanRun(body: unknown): PlanRequest {
  const [first] = planForm.Errors(body);
  if (first !== undefined) {
    // What no schema describes is measured against the schema `false`.
    const isUnknown = first.keyword === 'boolean';
    const place = isUnknown ? 'a field' : first.instancePath.split('/')[1] || 'the body';
    const problem = isUnknown ? 'there is no such field' : first.message;
    throw new BridgeError('ERR_COMMAND_PARAMETERS', `${place}: ${problem}`);
  }
  const { groups, params, ...rest }: Static<typeof PlanForm> = planForm.Parse(body);
  const targets = Object.entries(groups).map(([name, target]) => {
    if (typeof target === 'string' || Array.isArray(target)) return [name, target];
    return [name, { tgt: target.target, tgtType: target.targetType }];
  });
  // JSON, as it came; the schemas of the plan and its commands look at it.
  return { ...rest, groups: Object.fromEntries(targets), params: (params ?? {}) as Parameters };
}
