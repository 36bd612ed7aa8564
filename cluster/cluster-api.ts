/** The interface `cluster` of a master. */

import type { FixedConfig } from '#config';
import { type MasterApi, type MasterContext, MasterError, version } from '#master';
import { inTime, linkSignals, timeLimit } from '#runtime';
import { JoinService } from './join-service.ts';
import type { OpenCluster } from './open-cluster.ts';

const defaultSeconds = 3600;
const defaultDrainSeconds = 300;

/** Also lets masters join that show a ticket, until the master closes. */
export function createClusterApi(
  cluster: OpenCluster,
  { stateDir }: FixedConfig,
  context: MasterContext,
): MasterApi['cluster'] {
  const { store, now, closers, closing } = context;
  cluster.announce('program', version);
  const log = context.log.child({ component: 'cluster' });
  const service = new JoinService({ cluster, store, directory: stateDir, now, log, closing });
  closers.add(service, (it) => it.close());
  return {
    status: async () => cluster.status(),
    ticket: ({ seconds = defaultSeconds } = {}) => service.ticket(seconds),
    remove: ({ member }) => remove(cluster, member),
    drain: async ({ seconds = defaultDrainSeconds } = {}) => {
      log.info('this member is drained: it takes no new jobs and calls');
      cluster.calls.close();
      await context.duties?.handOver();
      const limit = timeLimit(seconds * 1000);
      const { signal, unlink } = linkSignals(limit.signal, closing);
      await inTime(cluster.calls.idle(), signal);
      unlink();
      limit.clear();
      return { active: cluster.calls.active };
    },
    resume: async () => {
      log.info('this member takes jobs and calls again');
      cluster.calls.open();
      context.duties?.resume();
    },
  };
}

/** @throws MasterError ERR_ARGS */
async function remove(cluster: OpenCluster, name: string): Promise<void> {
  const member = cluster.status().members.find((it) => it.name === name);
  if (member === undefined) throw new MasterError('ERR_ARGS', `there is no member ${name}`);
  if (member.isAlive) {
    throw new MasterError('ERR_ARGS', `member ${name} is alive; stop it, and let it leave itself`);
  }
  await cluster.store.removeMember(name);
}
