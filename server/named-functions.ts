/** Runners and renderers that a configuration names and that a master does not have. */

import { ConfigError, type MasterConfig, readSchedule, type ScheduleEntry } from '#config';
import { rendererProblem, runnerProblem } from '#salt';
import type { ValueProblem } from './named-files.ts';

/** Returns the option `renderer`, and runners of `schedule`, that are not served. */
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

/** Mistakes in the schedule are reported on their own. */
function readEntries(schedule: MasterConfig['schedule']): readonly ScheduleEntry[] {
  try {
    return readSchedule(schedule);
  } catch (error) {
    if (error instanceof ConfigError) return [];
    throw error;
  }
}
