/**
 * All states that orchestrations may use [salt/utils/args.py format_call, salt/states/saltmod.py].
 */

import type { MasterFunctions } from './master-functions.ts';
import { moduleRun } from './module-run.ts';
import type { OrchestrationContext } from './orchestration-context.ts';
import { parallelRunners } from './parallel-runners.ts';
import { saltFunction } from './salt-function.ts';
import { saltRunner, saltWheel } from './salt-runner.ts';
import { saltState } from './salt-state.ts';
import type { StateTable } from './state-function.ts';
import { testStates } from './test-states.ts';
import { waitForEvent } from './wait-for-event.ts';

/**
 * Creates the table of all state functions.
 * @param functions - functions of the master that states may call
 */
export function stateTable(context: OrchestrationContext, functions: MasterFunctions): StateTable {
  return new Map([
    ...testStates(),
    ['module.run', moduleRun(functions)],
    ['module.mod_watch', moduleRun(functions)],
    ['salt.function', saltFunction(context, functions)],
    ['salt.state', saltState(context)],
    ['salt.runner', saltRunner(context)],
    ['salt.wheel', saltWheel(context)],
    ['salt.wait_for_event', waitForEvent(context)],
    ['salt.parallel_runners', parallelRunners(context)],
  ]);
}
