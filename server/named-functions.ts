/** Finds unsupported runners and renderers in a configuration. */

import { ConfigError, type MasterConfig, readSchedule, type ScheduleEntry } from '#config';
import { rendererProblem, runnerProblem } from '#salt';
import type { ValueProblem } from './named-files.ts';

/**
 * Returns problems for unsupported renderers in the option `renderer` and unsupported runners in
 * `schedule`.
 */
export function findUnservedFunctions({
  renderer,
  schedule,
}: Pick<MasterConfig, 'renderer' | 'schedule'>): ValueProblem[] {
  const found = readEntries(schedule).flatMap(({ name, fun, target }) => {
    const problem = target === undefined ? runnerProblem(fun) : undefined;
    return problem === undefined ? [] : [{ key: ['schedule', name, 'function'], problem }];
  });
  const ofRenderer = rendererProblem(renderer);
  return ofRenderer === undefined ? found : [{ key: ['renderer'], problem: ofRenderer }, ...found];
}

/**
 * Returns the entries of the schedule. For an invalid schedule, returns an empty list, because
 * another check reports its errors.
 */
function readEntries(schedule: MasterConfig['schedule']): readonly ScheduleEntry[] {
  try {
    return readSchedule(schedule);
  } catch (error) {
    if (error instanceof ConfigError) return [];
    throw error;
  }
}
