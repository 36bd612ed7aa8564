/** Salt's runners that no other service provides. To add a runner, add its table here. */

import {
  type ExtensionHost,
  hasFullRights,
  masterServices,
  type OpenExtension,
  version,
} from '#master';
import { servedFiles } from '../file-trees/served-files.ts';
import { insteadOfRunner } from '../not-served.ts';
import { masterOptionsOf } from '../render/master-options.ts';
import { PillarSources } from '../render/pillar-sources.ts';
import { Renderer } from '../render/renderer.ts';
import { fileServerKey, mineKey, pillarSourceKey } from '../services.ts';
import { askRunners } from './ask-runners.ts';
import { authRunner } from './auth-runner.ts';
import { CacheBanks } from './cache-banks.ts';
import { cacheRunner } from './cache-runner.ts';
import { configRunner } from './config-runner.ts';
import { docRunner } from './doc-runner.ts';
import { eventRunner } from './event-runner.ts';
import { httpRunner } from './http-runner.ts';
import { jobsRunner } from './jobs-runner.ts';
import { manageRunner } from './manage-runner.ts';
import { queueRunner } from './queue-runner.ts';
import { saltCmdRunner } from './salt-cmd.ts';
import { sdbRunner } from './sdb-runner.ts';
import { testRunner } from './test-runner.ts';

export async function openRunners(host: ExtensionHost): Promise<OpenExtension> {
  const config = host.use(masterServices.config);
  const context = host.use(masterServices.context);
  const auth = host.use(masterServices.auth);
  const jobs = host.use(masterServices.jobs);
  const { bus, api: events } = host.use(masterServices.events);
  const { runners, wheel } = host.use(masterServices.functions);
  const { policy } = host.use(masterServices.users);
  const log = context.log.child({ component: 'runners' });
  const acceptedIds = (): readonly string[] => auth.keys.acceptedIds();
  const fileServer = host.find(fileServerKey);
  const { jinjaTrimBlocks: trimBlocks, jinjaLstripBlocks: lstripBlocks } = config.fixed;
  const whitespace = { trimBlocks, lstripBlocks };
  const reader = context.closers.add(new Renderer(), (it) => it.close());
  return {
    insteadOf: (kind, fun) => (kind === 'runner' ? insteadOfRunner(fun) : undefined),
    runners: {
      ...jobsRunner({ jobs: jobs.api, cache: jobs.cache, running: () => runners.running() }),
      ...manageRunner({
        jobs: jobs.api,
        targets: jobs.targets,
        keys: host.use(masterServices.keys),
        acceptedIds,
        present: () => jobs.present(),
        version: `saltbridge ${version}`,
      }),
      ...cacheRunner({
        facts: jobs.facts,
        targets: jobs.targets,
        mine: host.find(mineKey)?.mine,
        acceptedIds,
        banks: new CacheBanks(context.ownStore),
      }),
      ...authRunner({ users: host.use(masterServices.users) }),
      ...eventRunner({ bus, events }),
      ...docRunner({
        jobs: jobs.api,
        docs: {
          runner: (prefix) => runners.docs(prefix),
          wheel: (prefix) => wheel.docs(prefix),
        },
      }),
      ...testRunner(),
      ...saltCmdRunner({
        masterId: config.fixed.id,
        masterOptions: () => masterOptionsOf(config),
        pillar: host.find(pillarSourceKey),
        files: fileServer && new PillarSources({ backend: servedFiles(fileServer), ...whitespace }),
        renderer: reader,
      }),
      ...askRunners(jobs),
      ...configRunner({ config }),
      ...sdbRunner({ config, reader, log }),
      ...httpRunner({ config, reader }),
      ...queueRunner({
        store: context.ownStore,
        bus,
        isFullService: (name) =>
          hasFullRights({ subject: { kind: 'service', name }, policy: policy.current }),
        run: async (fun, arg, kwarg, { user }) => {
          await runners.run({ fun, arg, kwarg, user });
        },
      }),
    },
  };
}
