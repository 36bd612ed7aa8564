import { mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { type MasterConfig, storeDirectory } from '#config';
import { dropTables, inStore, notRestored } from '#master';
import { delay, makeDirectory } from '#runtime';
import { detachFromLog, restoreStore, StoreError } from '#store';
import { loadLogEngine } from './log/log-engine.ts';
import type { ReplayPoint, ReplayReceipt } from './log/replay.ts';
import type { TransactionLog } from './log/transaction-log.ts';
import {
  type ClusterReceipt,
  clusterOptionsOf,
  connectTo,
  memberOf,
  type OfflineClusterOptions,
} from './offline-cluster.ts';
import { readSecret } from './open-cluster.ts';
import { giveToOwners } from './state-files.ts';

/** Earlier state of a cluster to restore. */
export interface RestorePoint {
  /**
   * Path of a member's backup. It must be older than the state to restore, because the later log
   * entries are then applied to the backup.
   */
  readonly file: string;
  /** Point at which the replay of the log ends. Default: all entries are applied to the backup. */
  readonly until?: ReplayPoint;
}

/** Result of {@link refoundCluster}. */
export interface RefoundReceipt extends ClusterReceipt {
  /** Result of replaying the log. Only set if a backup was given. */
  readonly restored?: ReplayReceipt & {
    /** Directory with the previous store, or `undefined` if there was none. */
    readonly old: string | undefined;
  };
}

/**
 * Begins a new log from the store of this master, if the old log was lost completely or in part. If
 * a backup is given, first restores that earlier state of the cluster. The other members must then
 * join again. The old log is kept until the new one begins.
 * @throws StoreError ERR_STORE_LOCKED if this or another member is running; ERR_STORE_BACKUP,
 * ERR_STORE_CORRUPT, ERR_CLUSTER_BEHIND; ERR_STORE_DIVERGED if the log does not belong to the
 * backup
 */
export async function refoundCluster(
  config: MasterConfig,
  options: OfflineClusterOptions = {},
  point?: RestorePoint,
): Promise<RefoundReceipt> {
  const { cluster, receipt } = memberOf(config);
  const { secretFile } = receipt;
  const secret = await readSecret(secretFile);
  const { foundLog } = await loadLogEngine();
  const log = await connectTo(cluster, options, true);
  let restored: RefoundReceipt['restored'];
  try {
    await assertNoneRunning(log, { secret, cluster: cluster.name, quietMs: options.quietMs });
    if (point !== undefined) restored = await restorePoint(config, point, { log, secret });
    const directory = storeDirectory(config.stateDir);
    await foundLog({ log, secret, cluster: cluster.name, directory, replace: true });
  } finally {
    await log.close();
  }
  await giveToOwners([config.stateDir, config.pkiDir]);
  return restored === undefined ? receipt : { ...receipt, restored };
}

/**
 * Default time to wait for reports of running members, in milliseconds. It exceeds two report
 * intervals of a member.
 */
const quietMs = 2500;

interface QuietOptions {
  readonly secret: Uint8Array;
  readonly cluster: string;
  readonly quietMs: number | undefined;
}

/**
 * Checks that no member is running. The writes of a running member would be lost.
 * @throws StoreError ERR_STORE_LOCKED if a report of a member arrives
 */
async function assertNoneRunning(
  log: TransactionLog,
  { secret, cluster, quietMs: duration = quietMs }: QuietOptions,
): Promise<void> {
  const { LogCipher } = await loadLogEngine();
  const cipher = new LogCipher(secret, cluster, 'announcement');
  const end = AbortSignal.timeout(duration);
  let isHeard = false;
  log.onAnnouncement((bytes) => {
    isHeard ||= cipher.open(bytes) !== undefined;
  }, end);
  await delay(duration);
  if (isHeard) {
    const message = `members of cluster ${cluster} are still running; stop all of them first`;
    throw new StoreError('ERR_STORE_LOCKED', message);
  }
}

/**
 * Replaces the store of this master with a backup, and applies the later log entries up to a point.
 */
async function restorePoint(
  config: MasterConfig,
  { file, until = {} }: RestorePoint,
  { log, secret }: { readonly log: TransactionLog; readonly secret: Uint8Array },
): Promise<NonNullable<RefoundReceipt['restored']>> {
  const { name: cluster } = clusterOptionsOf(config);
  const { replayLog } = await loadLogEngine();
  await makeDirectory(config.stateDir, 0o700);
  const staging = await mkdtemp(path.join(config.stateDir, 'joining-'));
  try {
    const directory = path.join(staging, 'store');
    await restoreStore({ file, directory });
    const replayed = await replayLog({ directory, log, secret, cluster, until });
    // The store gets a new history id, so that members with the old content do not follow it.
    await detachFromLog(directory);
    const copy = path.join(staging, 'copy');
    await inStore(directory, async (store) => {
      await dropTables(store, notRestored);
      await store.backup(copy);
    });
    const target = storeDirectory(config.stateDir);
    const { old } = await restoreStore({ file: copy, directory: target });
    return { ...replayed, old };
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}
