/** The part of the bridge that runs plans. */
import type { ExtensionHost } from '../../master/index.ts';
import { addPlanRoutes } from '../http/plan-routes.ts';
import type { BridgePart } from '../part.ts';
import type { CommandRunner } from '../run/command-runner.ts';
import type { RunQuotas } from '../run/options.ts';
import { createPlanApi, type PlanApi } from './plan-api.ts';
import type { PlanBook } from './plan-book.ts';
import { PlanRunner } from './plan-runner.ts';
import { planMethods } from './rpc.ts';

/** What it is opened with. */
export interface PlanOptions {
  readonly plans: PlanBook;
  readonly commands: CommandRunner;
  readonly service: string;
  readonly quotas: RunQuotas;
}

export function openPlans(
  host: ExtensionHost,
  { plans, commands, service, quotas }: PlanOptions,
): BridgePart<PlanApi> {
  const runner = new PlanRunner({ host, plans, commands, service, quotas });
  const api = createPlanApi(plans, runner);
  return {
    api,
    rpc: planMethods(api),
    routes: (app, doors) => addPlanRoutes(app, doors, { api, host }),
    close: () => runner.close(),
  };
}
