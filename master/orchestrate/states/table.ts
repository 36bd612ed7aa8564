/** The states that orchestrations may have: a closed table. This master runs no others. */
import type { World } from '../world.ts';
import { saltRunner, saltWheel } from './masters-functions.ts';
import { parallelRunners } from './parallel-runners.ts';
import { saltFunction } from './salt-function.ts';
import { saltState } from './salt-state.ts';
import type { StateTable } from './state-function.ts';
import { testStates } from './test.ts';
import { waitForEvent } from './wait-for-event.ts';

export function stateTable(world: World): StateTable {
  return new Map([
    ...testStates(),
    ['salt.function', saltFunction(world)],
    ['salt.state', saltState(world)],
    ['salt.runner', saltRunner(world)],
    ['salt.wheel', saltWheel(world)],
    ['salt.wait_for_event', waitForEvent(world)],
    ['salt.parallel_runners', parallelRunners(world)],
  ]);
}
