/** Plans over HTTP, by the token of whoever calls. */

import type { FastifyInstance, FastifySchema } from 'fastify';
import type { Static, TSchema } from 'typebox';
import Type from 'typebox';
import { type ExtensionHost, type HttpServerContext, toJson } from '#master';
import { compileSchema } from '#runtime';
import { RunResultSchema } from '../commands/command-routes.ts';
import type { Parameters } from '../commands/parameters.ts';
import { BridgeError } from '../errors.ts';
import { createCallerResolver, type HttpCaller } from '../http/http-caller.ts';
import { describeRoute, parseBody } from '../http/route-schema.ts';
import { currentRunState, runStateSchema } from '../http/run-state.ts';
import { UpdateStreams } from '../http/update-stream.ts';
import type { PlanApi } from './plan-api.ts';
import { mayRunPlan, type PlanInfo } from './plan-info.ts';
import type { PlanHandle, PlanRequest } from './plan-request.ts';
import { firstPlanUpdate } from './plan-rpc.ts';

// Schemas.

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const Target = Type.Union([
  Text,
  Type.Array(Text, { minItems: 1, maxItems: 100_000 }),
  Type.Object({ target: Text, targetType: Text }, strict),
]);
const PlanRunBody = Type.Object(
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
const compiledPlanRunBody = compileSchema(PlanRunBody);

/** @throws BridgeError ERR_COMMAND_PARAMETERS, without a value */
function parsePlanRunBody(body: unknown): PlanRequest {
  const { groups, params, ...rest }: Static<typeof PlanRunBody> = parseBody(
    compiledPlanRunBody,
    body,
  );
  const targets = Object.entries(groups).map(([name, target]) => {
    if (typeof target === 'string' || Array.isArray(target)) return [name, target];
    return [name, { tgt: target.target, tgtType: target.targetType }];
  });
  // JSON, as it came; the schemas of the plan and its commands look at it.
  return { ...rest, groups: Object.fromEntries(targets), params: (params ?? {}) as Parameters };
}

const word: TSchema = Type.String();
const texts: TSchema = Type.Array(word);
const oneOf = (...words: readonly string[]): TSchema =>
  Type.Union(words.map((it) => Type.Literal(it)));
const GroupSchema = Type.Object({
  description: Type.Optional(word),
  min: Type.Optional(Type.Integer()),
  max: Type.Optional(Type.Integer()),
  from: Type.Optional(word),
  select: Type.Optional(oneOf('first', 'rest')),
});
const PlanSchema = Type.Object({
  name: word,
  description: word,
  version: Type.Integer(),
  parameters: Type.Unknown(),
  secret: texts,
  groups: Type.Record(Type.String(), GroupSchema),
  steps: Type.Array(
    Type.Object({
      name: word,
      command: word,
      group: word,
      needs: texts,
      onFailure: oneOf('stop', 'continue'),
      undo: Type.Optional(word),
    }),
  ),
  timeout: Type.Number(),
  parallel: Type.Integer(),
  deprecated: Type.Optional(word),
});
const StepResultSchema = Type.Object({
  step: word,
  command: word,
  status: oneOf('succeeded', 'failed', 'skipped'),
  results: Type.Array(RunResultSchema),
  runs: texts,
  reason: Type.Optional(word),
});
const PlanOutcomeSchema = Type.Object({
  id: word,
  plan: word,
  status: oneOf('succeeded', 'partial', 'failed', 'timeout', 'cancelled', 'interrupted'),
  steps: Type.Array(StepResultSchema),
  undone: Type.Array(StepResultSchema),
  failedStep: Type.Optional(word),
});
const stepFields = { step: word, kind: oneOf('do', 'undo') };
const Counts = { all: Type.Integer(), ended: Type.Integer() };
/** One line of a run. */
const PlanUpdateSchema = Type.Union([
  Type.Object({
    type: Type.Literal('begun'),
    id: word,
    groups: Type.Record(Type.String(), texts),
    isRepeated: Type.Boolean(),
  }),
  Type.Object({
    type: Type.Literal('step'),
    ...stepFields,
    state: oneOf('running', 'succeeded', 'failed'),
    minions: Type.Object({ ...Counts, succeeded: Type.Integer() }),
    steps: Type.Object(Counts),
    reason: Type.Optional(word),
  }),
  Type.Object({ type: Type.Literal('result'), ...stepFields, result: RunResultSchema }),
  Type.Object({ type: Type.Literal('outcome'), outcome: PlanOutcomeSchema }),
  Type.Object({ type: Type.Literal('error'), code: word, message: word }),
]);
const ndjsonAnswer = { answer: PlanUpdateSchema, answerTypes: ['application/x-ndjson'] } as const;

/** Of each route, what it is. */
const planRouteSchemas: Readonly<
  Record<'list' | 'show' | 'run' | 'follow' | 'outcome' | 'cancel', FastifySchema>
> = {
  list: describeRoute({
    summary: 'The plans of the catalog',
    answer: Type.Object({ plans: Type.Array(PlanSchema) }),
  }),
  show: describeRoute({ summary: 'One plan', answer: PlanSchema }),
  run: describeRoute({
    summary: 'Runs a plan; with Prefer: respond-async (202) only its beginning is told',
    body: PlanRunBody,
    ...ndjsonAnswer,
  }),
  follow: describeRoute({
    summary: "What a run of a plan of the caller's tells, from its beginning",
    ...ndjsonAnswer,
  }),
  outcome: describeRoute({
    summary: "Whether a run of a plan of the caller's has ended, and its outcome; answers at once",
    answer: runStateSchema(PlanOutcomeSchema),
  }),
  cancel: describeRoute({
    summary: "Ends a run of a plan of the caller's, and takes back what is done",
    query: { undo: oneOf('true', 'false') },
    answer: PlanOutcomeSchema,
  }),
};

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
