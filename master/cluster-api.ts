/** The interface `cluster` of a master. */

import { type ClusterApi, MasterError } from './api/index.ts';
import type { FixedConfig } from './config/index.ts';
import { type Cluster, JoinService, type MasterContext } from './context/index.ts';

const defaultSeconds = 3600;

/** Also lets masters join that show a ticket, until the master closes. */
export function createClusterApi({ stateDir }: FixedConfig, context: MasterContext): ClusterApi {
  const { cluster, store, now, closers, closing } = context;
  if (cluster === undefined) {
    return {
      status: async () => null,
      ticket: async () => refuseWithout(),
      remove: async () => refuseWithout(),
    };
  }
  const log = context.log.child({ component: 'cluster' });
  const service = new JoinService({ cluster, store, directory: stateDir, now, log, closing });
  closers.add(service, (it) => it.close());
  return {
    status: async () => cluster.status(),
    ticket: ({ seconds = defaultSeconds } = {}) => service.ticket(seconds),
    remove: ({ member }) => remove(cluster, member),
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
