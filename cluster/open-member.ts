import { storeDirectory } from '#config';
import { type ClusterMember, PkiDir, type SharedStoreOptions } from '#master';
import { diskSpaceOf } from '#store';
import { createClusterApi } from './cluster-api.ts';
import { ClusterJobs } from './cluster-jobs.ts';
import { openClusterSeal, writeOwnKeys } from './cluster-keys.ts';
import { Duties, leaseKey } from './duties.ts';
import type { TransactionLog } from './log/transaction-log.ts';
import { type OpenCluster, openCluster } from './open-cluster.ts';
import { PkiMirror } from './pki-mirror.ts';
import { sharedKeyFiles } from './shared-keys.ts';

/**
 * Opens the store of a cluster member, and the services that it shares with the other members.
 * @param connect - connects to the log; default: connects to the NATS servers of the configuration
 * @throws StoreError
 */
export async function openMember(
  options: SharedStoreOptions,
  connect?: () => Promise<TransactionLog>,
): Promise<ClusterMember> {
  const { config, now, logger, onReplaced, closing } = options;
  const log = logger.child({ component: 'cluster' });
  let report: (isFull: boolean) => void = () => {};
  const cluster = await openCluster({
    config,
    options: options.cluster,
    connect,
    now,
    closing,
    onFull: (isFull) => {
      if (isFull)
        log.error(
          'the disk of the store is full: this member cannot apply changes from the cluster log',
        );
      else log.info('the disk of the store has free space again');
      report(isFull);
    },
    onLost: (error) => {
      log.fatal({ err: error }, 'this master is no longer a member of the cluster and stops');
      onReplaced(error);
    },
  });
  const { member, name, store } = cluster;
  const { warnings } = store.status;
  log.info(
    { cluster: name, member, position: store.status.position },
    'opened the store as a member of the cluster',
  );
  for (const warning of warnings) log.warn({ cluster: name }, warning);
  return {
    store,
    disk: {
      isFull: () => store.isFull,
      space: () => diskSpaceOf(storeDirectory(config.stateDir)),
      backup: (target) => store.backup(target),
      onChange: (listener) => {
        report = listener;
      },
    },
    cluster,
    duties: openDuties(cluster, options),
    keys: {
      openSeal: (rows) => openClusterSeal(rows, cluster),
      writeOwnKeys: (fixed, rows) => writeOwnKeys(fixed, rows, { cluster, now }),
      minionKeys: (rows) => sharedKeyFiles(rows, cluster, now),
      mirror: async ({ pkiDir }, keys, keyLog) => {
        const mirror = new PkiMirror(await PkiDir.open(pkiDir), keys, keyLog);
        await mirror.start();
        return mirror;
      },
    },
    jobs: {
      open: (deps) => new ClusterJobs({ ...deps, cluster }),
    },
    createApi: (fixed, context) => createClusterApi(cluster, fixed, context),
  };
}

function openDuties(
  { store, member, follow }: OpenCluster,
  { now, logger }: SharedStoreOptions,
): ClusterMember['duties'] & { close(): Promise<void> } {
  const duties = new Duties({
    store,
    member,
    refusesWrites: () => store.status.refusesWrites,
    now,
    log: logger.child({ component: 'cluster' }),
  });
  follow(leaseKey, ({ type }) => {
    if (type === 'delete') duties.look();
  });
  return duties;
}
