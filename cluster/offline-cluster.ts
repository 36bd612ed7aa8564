/** Creates and leaves clusters. The master must not be running. */

import { randomBytes } from 'node:crypto';
import { type ClusterOptions, type MasterConfig, storeDirectory } from '#config';
import {
  clusterPlaceOf,
  dropTables,
  inStore,
  MasterError,
  openMasterKeys,
  ownPrefix,
  PkiDir,
} from '#master';
import { makeDirectory, readTextIfPresent, writeFileAtomically } from '#runtime';
import { detachFromLog, type Key, type Operation, type Store, StoreError } from '#store';
import { exportSealKey, shareOwnKeys, writeOwnKeys } from './cluster-keys.ts';
import { loadLogEngine } from './log/log-engine.ts';
import type { TransactionLog } from './log/transaction-log.ts';
import {
  type OpenCluster,
  openCluster,
  openClusterLog,
  readSecret,
  secretBytes,
} from './open-cluster.ts';
import { shareMinionKeys, writeMinionKeys } from './shared-keys.ts';
import { giveToOwners } from './state-files.ts';

/** Options for connecting to the log. */
export interface OfflineClusterOptions {
  /**
   * Function that connects to the log. If `isFounding` is true, it creates the log if necessary.
   * Default: connects to the NATS servers of the configuration.
   */
  readonly connect?: (isFounding: boolean) => Promise<TransactionLog>;
  readonly now?: () => number;
  /**
   * Time to wait for reports of running members before a new log is created, in milliseconds.
   * Default: 2,500.
   */
  readonly quietMs?: number;
}

/** Result of a cluster operation. */
export interface ClusterReceipt {
  readonly cluster: string;
  readonly member: string;
  readonly secretFile: string;
}

/** Key of a row that exists when the first member has written all shared data to the store. */
const completeRow: Key = ['cluster', 'initialised'];

/**
 * Tables that are not shared. Each member has its own. The first member continues to use the tables
 * of its former standalone master.
 */
const ownTables: readonly Key[] = [
  ['audit'],
  ['cache-banks'],
  ['cache-bank-owners'],
  ['decisions'],
  ['event-ring'],
  ['pillar-cache'],
  ['pillar-tops'],
  ['runner-queues'],
  ['state'],
];

/**
 * Tables that all members share. They are parts of the table `state` in {@link ownTables}, whose
 * other parts are not shared. Extensions write the shared tables through `ExtensionHost.shared`.
 */
const sharedTables: readonly Key[] = [
  ['state', 'bridge'],
  ['state', 'salt-api'],
];

/**
 * Returns the cluster options of a configuration.
 * @throws MasterError ERR_NOT_SERVED if no cluster is configured
 */
export function clusterOptionsOf({ cluster, confFile }: MasterConfig): ClusterOptions {
  if (cluster !== null) return cluster;
  const expected = 'it must be a map with name and nats, see docs/cluster.md';
  throw new MasterError(
    'ERR_NOT_SERVED',
    `${confFile}: saltbridge: cluster is not set; ${expected}`,
  );
}

/**
 * Returns the cluster options of a configuration, with the name and the secret file of this member.
 */
export function memberOf(config: MasterConfig): {
  readonly cluster: ClusterOptions;
  readonly receipt: ClusterReceipt;
} {
  const cluster = clusterOptionsOf(config);
  return {
    cluster,
    receipt: { cluster: cluster.name, ...clusterPlaceOf(cluster, config.stateDir) },
  };
}

export function connectTo(
  options: ClusterOptions,
  { connect }: OfflineClusterOptions,
  isFounding: boolean,
): Promise<TransactionLog> {
  return connect?.(isFounding) ?? openClusterLog(options, { isFounding });
}

/**
 * Makes a master the first member of a new cluster, with its state and its keys. If it is
 * interrupted, run it again; it continues where it stopped.
 * @param beforeFounding - checks the store of the future member. If it throws, no cluster is
 * created
 * @throws StoreError ERR_CLUSTER_FOUNDED, ERR_CLUSTER_SECRET; ERR_STORE_LOCKED if the master is
 * running
 */
export async function initCluster(
  config: MasterConfig,
  options: OfflineClusterOptions = {},
  beforeFounding: () => Promise<void> = async () => {},
): Promise<ClusterReceipt> {
  const { now = Date.now } = options;
  const { cluster, receipt } = memberOf(config);
  const { member, secretFile } = receipt;
  // The connection is opened first. If it fails, no secret has been written, and this master can
  // still join another cluster.
  const log = await connectTo(cluster, options, true);
  try {
    await makeDirectory(config.stateDir, 0o700);
    const secret = await makeSecret(secretFile);
    const { first, last } = await log.health();
    if (last < first) {
      const directory = storeDirectory(config.stateDir);
      const toMember = (table: Key): Move => ({
        from: table,
        to: [...ownPrefix(member), ...table],
      });
      const move = (store: Store): Promise<void> => moveOwnTables(store, toMember);
      await inStore(directory, move, now).catch(unlessOfCluster);
      await beforeFounding();
      const { foundLog } = await loadLogEngine();
      await foundLog({ log, secret, cluster: cluster.name, directory, now });
    }
  } finally {
    await log.close();
  }
  await asMember(config, options, async (own) => {
    if ((await own.store.get(completeRow)) !== undefined) {
      const message = `cluster ${cluster.name} is already initialised; join it with a ticket instead`;
      throw new StoreError('ERR_CLUSTER_FOUNDED', message);
    }
    await makeOwnKeys(config);
    await shareOwnKeys(config, own.store, own);
    await shareMinionKeys(await PkiDir.open(config.pkiDir), own.store);
    await own.store.write([{ op: 'put', key: completeRow, value: Buffer.from(String(now())) }]);
  });
  await giveToOwners([config.stateDir, config.pkiDir]);
  return receipt;
}

/**
 * Checks that the log does not exist yet.
 * @throws StoreError ERR_CLUSTER_FOUNDED if a cluster with this name exists
 */
export async function assertNoLog(
  config: MasterConfig,
  options: OfflineClusterOptions = {},
): Promise<void> {
  const cluster = clusterOptionsOf(config);
  const log = await connectTo(cluster, options, true);
  try {
    const { first, last } = await log.health();
    if (last < first) return;
  } finally {
    await log.close();
  }
  const message = `cluster ${cluster.name} already exists; join it with a ticket instead`;
  throw new StoreError('ERR_CLUSTER_FOUNDED', message);
}

/**
 * Creates the secret of the cluster. If the file exists, from an interrupted attempt or from the
 * operator, its content is used.
 */
async function makeSecret(file: string): Promise<Uint8Array> {
  if ((await readTextIfPresent(file)) === undefined) {
    await writeFileAtomically(file, `${randomBytes(secretBytes).toString('base64')}\n`, 0o600);
  }
  return readSecret(file);
}

/**
 * Throws the error again, unless it means that the store already belongs to a cluster. This is the
 * case if an earlier attempt was interrupted after it had moved the tables.
 */
function unlessOfCluster(error: unknown): void {
  if (!(error instanceof StoreError && error.code === 'ERR_CLUSTER_LOG')) throw error;
}

/** Generates the master's own keys if they are missing, so that all members use the same keys. */
async function makeOwnKeys(config: MasterConfig): Promise<void> {
  const { pkiDir, keysize: bits, keyPass, signingKeyPass } = config;
  const pass = (passphrase: string | null): object => (passphrase === null ? {} : { passphrase });
  await openMasterKeys({ pkiDir, name: 'master', bits, ...pass(keyPass) });
  if (!config.masterSignPubkey || config.masterUsePubkeySignature) return;
  await openMasterKeys({ pkiDir, name: config.masterSignKeyName, bits, ...pass(signingKeyPass) });
}

const rowsPerWrite = 256;

interface Move {
  readonly from: Key;
  readonly to: Key;
}

async function moveOwnTables(store: Store, moveOf: (table: Key) => Move): Promise<void> {
  for (const table of ownTables) await moveRows(store, moveOf(table));
}

/**
 * Moves rows to another key prefix. If the move is interrupted, call this function again. It skips
 * moved rows, because they no longer exist under the old prefix.
 */
async function moveRows(store: Store, { from, to }: Move): Promise<void> {
  let after: Key | undefined;
  for (;;) {
    const operations: Operation[] = [];
    const page = { limit: rowsPerWrite, ...(after === undefined ? {} : { after }) };
    const last = after;
    for await (const { key, value, expiresAt } of store.list(from, page)) {
      after = key;
      if (sharedTables.some((table) => isBelow(table, key))) continue;
      const moved = [...to, ...key.slice(from.length)];
      const life = expiresAt === undefined ? {} : { expiresAt };
      operations.push({ op: 'delete', key }, { op: 'put', key: moved, value, ...life });
    }
    if (after === last) return;
    if (operations.length > 0) await store.write(operations);
  }
}

function isBelow(table: Key, key: Key): boolean {
  return table.every((segment, index) => key[index] === segment);
}

/** Opens the store as a member of the cluster for the duration of a task. */
async function asMember(
  config: MasterConfig,
  { connect, now = Date.now }: OfflineClusterOptions,
  work: (cluster: OpenCluster, now: () => number) => Promise<void>,
): Promise<void> {
  const closing = new AbortController();
  const cluster = await openCluster({
    config,
    options: clusterOptionsOf(config),
    ...(connect === undefined ? {} : { connect: () => connect(false) }),
    now,
    closing: closing.signal,
  });
  try {
    await work(cluster, now);
  } finally {
    closing.abort();
    await cluster.store.close();
  }
}

/**
 * Removes this master from its cluster. It can then be started as a standalone master with the
 * current content of the store.
 * @throws StoreError ERR_STORE_LOCKED if the master is running
 */
export async function leaveCluster(
  config: MasterConfig,
  options: OfflineClusterOptions = {},
): Promise<ClusterReceipt> {
  const { receipt } = memberOf(config);
  const { member } = receipt;
  await asMember(config, options, async (own, now) => {
    await exportSealKey(config, own.store, own);
    await writeOwnKeys(config, own.store, { cluster: own, now });
    // While this member was stopped, other members may have changed keys.
    await writeMinionKeys(own.store, await PkiDir.open(config.pkiDir));
    await own.store.removeMember(member);
  });
  await detachMember(storeDirectory(config.stateDir), member, options.now);
  await giveToOwners([config.stateDir, config.pkiDir]);
  return receipt;
}

/**
 * Tables that only exist in a cluster: members, leases and keys. A standalone master stores its
 * keys in files.
 */
export const clusterTables: readonly Key[] = [
  ['cluster'],
  ['denied-keys'],
  ['keys'],
  ['leases'],
  ['members'],
];

/**
 * Converts the store of a member to the store of a standalone master. No process may have the store
 * open.
 */
export async function detachMember(
  directory: string,
  member: string,
  now?: () => number,
): Promise<void> {
  await detachFromLog(directory);
  const toOwn = (table: Key): Move => ({ from: [...ownPrefix(member), ...table], to: table });
  const detach = async (store: Store): Promise<void> => {
    await moveOwnTables(store, toOwn);
    await dropTables(store, clusterTables);
  };
  await inStore(directory, detach, now);
}
