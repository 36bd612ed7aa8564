/** Plans as {@link Bridge} gives them. */
import type { CommandCaller } from '../run/request.ts';
import { describePlan, type PlanInfo } from './describe.ts';
import type { PlanBook } from './plan-book.ts';
import type { PlanRunner } from './plan-runner.ts';
import type { PlanHandle, PlanRequest } from './request.ts';

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

export function createPlanApi(plans: PlanBook, runner: PlanRunner): PlanApi {
  return {
    list: () => plans.list().map(describePlan),
    show: (name) => describePlan(plans.get(name)),
    run: (name, request) => runner.run(name, request),
    find: (id, caller) => runner.find(id, caller),
  };
}
