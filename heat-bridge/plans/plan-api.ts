/** API of plans and their runs. */

import type { CommandCaller } from '../commands/command-request.ts';
import type { PlanCatalog } from './plan-catalog.ts';
import { describePlan, type PlanInfo } from './plan-info.ts';
import type { PlanHandle, PlanRequest } from './plan-request.ts';
import type { PlanRunner } from './plan-runner.ts';

/** API of the catalog's plans and their runs. `Bridge` documents its methods. */
export type PlanApi = ReturnType<typeof createPlanApi>;

export function createPlanApi(plans: PlanCatalog, runner: PlanRunner) {
  return {
    /** Returns the plans, sorted by name. */
    list: (): readonly PlanInfo[] => plans.list().map(describePlan),
    /**
     * Returns one plan.
     * @throws BridgeError ERR_PLAN_UNKNOWN
     */
    show: (name: string): PlanInfo => describePlan(plans.get(name)),
    run: (name: string, request: PlanRequest): Promise<PlanHandle> => runner.run(name, request),
    find: (id: string, caller: CommandCaller): Promise<PlanHandle> => runner.find(id, caller),
  };
}
