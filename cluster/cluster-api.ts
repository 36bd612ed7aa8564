/**
 * Implements the methods of a master that report and change its cluster, such as `cluster.status`.
 */

import type { FixedConfig } from '#config';
import { type MasterApi, type MasterContext, MasterError, version } from '#master';
import { inTime, linkSignals, timeLimit } from '#runtime';
import { JoinService } from './join-service.ts';
import type { OpenCluster } from './open-cluster.ts';

const defaultSeconds = 3600;
const defaultDrainSeconds = 300;

/**
 * Creates the `cluster` methods of the master's API. Also starts the service through which other
 * masters join the cluster with a ticket. The service ends when this member closes.
 */
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
      log.info('draining this member: it accepts no new jobs or calls');
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
      log.info('this member accepts new jobs and calls');
      cluster.calls.open();
      context.duties?.resume();
    },
  };
}

/**
 * Removes a stopped member from the cluster.
 * @throws MasterError ERR_ARGS if the member is unknown or running
 */
async function remove(cluster: OpenCluster, name: string): Promise<void> {
  const member = cluster.status().members.find((it) => it.name === name);
  if (member === undefined) throw new MasterError('ERR_ARGS', `unknown member ${name}`);
  if (member.isAlive) {
    throw new MasterError(
      'ERR_ARGS',
      `member ${name} is running; stop it and run saltbridge cluster leave on it`,
    );
  }
  await cluster.store.removeMember(name);
}
