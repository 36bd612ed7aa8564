/** HTTP routes of plans. The caller's token authorises each request. */

import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import type { ExtensionHost } from '#master';
import { compileSchema } from '#runtime';
import { Texts } from '#store';
import type { Parameters } from '../commands/parameters.ts';
import { BridgeError } from '../errors.ts';
import { parseBody } from '../http/route-schema.ts';
import { addRunRoutes, runFields } from '../http/run-routes.ts';
import type { BridgeHttpContext } from '../http/written-answers.ts';
import type { PlanApi } from './plan-api.ts';
import { mayRunPlan, PlanSchema } from './plan-info.ts';
import { PlanOutcomeSchema, planUpdates } from './plan-request.ts';
import { firstPlanUpdate } from './plan-rpc.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const Target = Type.Union([
  Text,
  Type.Array(Text, { minItems: 1, maxItems: 100_000 }),
  Type.Object({ target: Text, targetType: Text }, strict),
]);
const RunBody = Type.Object(
  { groups: Type.Record(Type.String(), Target, { maxProperties: 32 }), ...runFields },
  strict,
);
const compiledRunBody = compileSchema(RunBody);

/**
 * Adds the HTTP routes that list, describe and run plans, and the routes of their runs. `DELETE`
 * with `?undo=false` cancels a run without undoing completed steps.
 */
export function addPlanRoutes(
  app: FastifyInstance,
  server: BridgeHttpContext,
  host: Pick<ExtensionHost, 'holdToken'>,
  api: PlanApi,
): void {
  addRunRoutes(app, server, host, {
    collection: 'plans',
    runs: 'plan-runs',
    noun: 'plan',
    info: PlanSchema,
    body: RunBody,
    outcome: PlanOutcomeSchema,
    updates: planUpdates,
    begun: { groups: Type.Record(Type.String(), Texts), narrowed: Texts },
    cancelQuery: { undo: Type.Enum(['true', 'false']) },
    list: ({ mayCall }) => ({ plans: api.list().filter((plan) => mayRunPlan(plan, mayCall)) }),
    show: ({ mayCall }, name) => {
      const plan = api.list().find((it) => it.name === name && mayRunPlan(it, mayCall));
      // For a plan that the caller may not run, send the same error as for an unknown one.
      if (plan === undefined)
        throw new BridgeError('ERR_PLAN_UNKNOWN', 'the plan does not exist, or no rule permits it');
      return plan;
    },
    read: (caller, name, body) => {
      const { groups: given, params, ...rest } = parseBody(compiledRunBody, body);
      const groups = Object.fromEntries(
        Object.entries(given).map(([group, target]) => {
          if (typeof target === 'string' || Array.isArray(target)) return [group, target];
          return [group, { tgt: target.target, tgtType: target.targetType }];
        }),
      );
      // Unparsed parameters from the body. The schemas of the plan and its commands validate them.
      return () => api.run(name, { ...rest, groups, params: (params ?? {}) as Parameters, caller });
    },
    find: (id, caller) => api.find(id, caller),
    first: firstPlanUpdate,
    cancel: (run, { undo }) => run.cancel({ undo: undo !== 'false' }),
  });
}
