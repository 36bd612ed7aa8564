/** The interface `cluster` of a master. */

import type { FixedConfig } from '#config';
import { type ClusterApi, MasterError, version } from '#master/api/index.ts';
import { type Cluster, JoinService, type MasterContext } from '#master/context/index.ts';
import { inTime, linkSignals, timeLimit } from '#runtime';

const defaultSeconds = 3600;
const defaultDrainSeconds = 300;

/** Also lets masters join that show a ticket, until the master closes. */
export function createClusterApi({ stateDir }: FixedConfig, context: MasterContext): ClusterApi {
  const { cluster, store, now, closers, closing } = context;
  if (cluster === undefined) {
    return {
      status: async () => null,
      ticket: async () => refuseWithout(),
      remove: async () => refuseWithout(),
      drain: async () => refuseWithout(),
      resume: async () => refuseWithout(),
    };
  }
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

function refuseWithout(): never {
  throw new MasterError('ERR_NOT_SERVED', 'this master is of no cluster (saltbridge: cluster)');
}

/** @throws MasterError ERR_ARGS */
async function remove(cluster: Cluster, name: string): Promise<void> {
  const member = cluster.status().members.find((it) => it.name === name);
  if (member === undefined) throw new MasterError('ERR_ARGS', `there is no member ${name}`);
  // protection: living-members
  if (member.isAlive) {
    throw new MasterError('ERR_ARGS', `member ${name} is alive; stop it, and let it leave itself`);
  }
  await cluster.store.removeMember(name);
}
