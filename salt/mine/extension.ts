/** The extension that opens the mine, answers its requests and provides the `mine` runner. */

import { type ExtensionHost, masterServices, type OpenExtension } from '#master';
import { mineKey } from '../services.ts';
import { openMine } from './mine.ts';
import { mineRequests } from './mine-requests.ts';
import { mineRunner } from './mine-runner.ts';

export async function openMineExtension(host: ExtensionHost): Promise<OpenExtension> {
  const context = host.use(masterServices.context);
  const jobs = host.use(masterServices.jobs);
  const opened = await openMine({
    config: host.use(masterServices.config),
    context,
    auth: host.use(masterServices.auth),
    jobs,
    users: host.use(masterServices.users),
  });
  host.provide(mineKey, opened);
  const { mine, mineReader } = opened;
  return {
    requests: mineRequests({
      mine,
      reader: mineReader,
      targets: jobs.targets,
      counters: context.counters,
    }),
    runners: mineRunner({ jobs: jobs.api, mineReader, targets: jobs.targets }),
  };
}
