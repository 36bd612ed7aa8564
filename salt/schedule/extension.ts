/** Opens the schedule of the option `schedule`. */

import { type ExtensionHost, masterServices, type OpenExtension } from '#master';
import { Schedule } from './schedule.ts';

export async function openSchedule(host: ExtensionHost): Promise<OpenExtension> {
  const schedule = new Schedule({
    config: host.use(masterServices.config),
    context: host.use(masterServices.context),
    jobs: host.use(masterServices.jobs),
    functions: host.use(masterServices.functions),
  });
  return { start: () => schedule.start(), close: async () => schedule.close() };
}
