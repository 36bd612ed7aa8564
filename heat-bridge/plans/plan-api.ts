/** The interface to plans. */

import type { CommandCaller } from '../commands/command-request.ts';
import type { PlanCatalog } from './plan-catalog.ts';
import { describePlan, type PlanInfo } from './plan-info.ts';
import type { PlanHandle, PlanRequest } from './plan-request.ts';
import type { PlanRunner } from './plan-runner.ts';

/** Plans: what there is, and calls. */
export interface PlanApi {
  /** In the order of their names. */
  list(): readonly PlanInfo[];
  /** @throws BridgeError ERR_PLAN_UNKNOWN */
  show(name: string): PlanInfo;
  /** See `Bridge.plan`. */
  run(name: string, request: PlanRequest): Promise<PlanHandle>;
  /**
   * A run that goes on, or was over not long ago.
   * @throws BridgeError ERR_RUN_UNKNOWN, also where it is somebody else's
   */
  find(id: string, caller: CommandCaller): Promise<PlanHandle>;
}

export function createPlanApi(plans: PlanCatalog, runner: PlanRunner): PlanApi {
  return {
    list: () => plans.list().map(describePlan),
    show: (name) => describePlan(plans.get(name)),
    run: (name, request) => runner.run(name, request),
    find: (id, caller) => runner.find(id, caller),
  };
}
