/**
 * Creates, joins and leaves clusters, and creates a new log for a cluster whose log was lost. The
 * master must not be running.
 */

import { createHash, randomBytes } from 'node:crypto';
import { appendFile, mkdtemp, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { type ClusterOptions, type MasterConfig, storeDirectory } from '#config';
import {
  clusterPlaceOf,
  dropTables,
  inStore,
  MasterError,
  notRestored,
  openMasterKeys,
  ownPrefix,
  PkiDir,
} from '#master';
import { delay, ifPresent, makeDirectory, readTextIfPresent, writeFileAtomically } from '#runtime';
import {
  detachFromLog,
  type Key,
  type Operation,
  restoreStore,
  type Store,
  StoreError,
} from '#store';
import { exportSealKey, shareOwnKeys, writeOwnKeys } from './cluster-keys.ts';
import {
  decodeFrame,
  encodeFrame,
  frameKinds,
  type JoinReply,
  type JoinRequest,
  newExchangeKeys,
  openBody,
  parseTicket,
  publicKeyBytes,
  replyKey,
  sealBody,
  type Ticket,
} from './join-frames.ts';
import { loadLogEngine } from './log/log-engine.ts';
import type { ReplayPoint, ReplayReceipt } from './log/replay.ts';
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
function clusterOptionsOf({ cluster, confFile }: MasterConfig): ClusterOptions {
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
function memberOf(config: MasterConfig): {
  readonly cluster: ClusterOptions;
  readonly receipt: ClusterReceipt;
} {
  const cluster = clusterOptionsOf(config);
  return {
    cluster,
    receipt: { cluster: cluster.name, ...clusterPlaceOf(cluster, config.stateDir) },
  };
}

function connectTo(
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

/** Interval at which an unanswered request is repeated, in milliseconds. */
const repeatMs = 1000;
/** Time without an answer after which joining fails, in milliseconds. */
const answerLimitMs = 20_000;

/**
 * Makes this master a member of a cluster. Sends the ticket to the members, and receives the secret
 * and a backup of the store from the member that answers. Nothing on this host changes before
 * everything has arrived.
 * @throws StoreError ERR_CLUSTER_TICKET; ERR_CLUSTER_FOUNDED if this master is already a member or
 * has its own store
 */
export async function joinCluster(
  config: MasterConfig,
  ticketText: string,
  options: OfflineClusterOptions = {},
): Promise<ClusterReceipt> {
  const { cluster, receipt } = memberOf(config);
  const { member, secretFile } = receipt;
  const ticket = parseTicket(ticketText);
  if (ticket.cluster !== cluster.name) {
    throw refusedTicket(
      `it was created for cluster ${ticket.cluster}, but saltbridge: cluster: name is ${cluster.name}`,
    );
  }
  await assertNothingHere(config, secretFile);
  const log = await connectTo(cluster, options, false);
  try {
    await takeOver(config, secretFile, (file) => new JoinExchange(log, ticket, member).run(file));
  } finally {
    await log.close();
  }
  await giveToOwners([config.stateDir, config.pkiDir]);
  return receipt;
}

/**
 * Installs the secret and the store of the cluster.
 * @param fetchBackup - writes the backup of a member to a file and returns the secret
 */
async function takeOver(
  { stateDir }: MasterConfig,
  secretFile: string,
  fetchBackup: (file: string) => Promise<string>,
): Promise<void> {
  await makeDirectory(stateDir, 0o700);
  const directory = await mkdtemp(path.join(stateDir, 'joining-'));
  try {
    const file = path.join(directory, 'backup');
    const secret = await fetchBackup(file);
    await restoreStore({ file, directory: storeDirectory(stateDir) });
    // The secret is written last, because a master does not start as a member without it.
    await writeFileAtomically(secretFile, `${secret}\n`, 0o600);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function refusedTicket(reason: string): StoreError {
  return new StoreError('ERR_CLUSTER_TICKET', `the ticket was rejected: ${reason}`);
}

/**
 * Checks that this master has no store, and no file with the secret of a cluster.
 *
 * @throws StoreError ERR_CLUSTER_FOUNDED
 */
async function assertNothingHere({ stateDir }: MasterConfig, secretFile: string): Promise<void> {
  if ((await readTextIfPresent(secretFile)) !== undefined) {
    const message = `${secretFile} exists: this master is already a member`;
    throw new StoreError('ERR_CLUSTER_FOUNDED', message);
  }
  const data = path.join(storeDirectory(stateDir), 'data.mdb');
  const found = await ifPresent(stat(data));
  if (found === undefined) return;
  const message = `${data} is the store of a standalone master: move ${stateDir} away, or run saltbridge cluster init to create a cluster with this store`;
  throw new StoreError('ERR_CLUSTER_FOUNDED', message);
}

type Reply = { readonly body: JoinReply; readonly content: Buffer };

/** Messages with which a joining master requests and receives a member's backup. */
class JoinExchange {
  readonly #log: TransactionLog;
  readonly #ticket: Ticket;
  readonly #member: string;
  readonly #request = randomBytes(16).toString('hex');
  readonly #keys = newExchangeKeys();

  constructor(log: TransactionLog, ticket: Ticket, member: string) {
    this.#log = log;
    this.#ticket = ticket;
    this.#member = member;
  }

  /**
   * Sends the request to join, and writes the backup that a member returns to a file.
   * @returns the secret of the cluster in base64
   */
  async run(file: string): Promise<string> {
    const request = this.#request;
    const publicKey = this.#keys.publicKey.toString('base64');
    const { body } = await this.#ask(
      { kind: 'join', request, member: this.#member, publicKey },
      ({ body: it }) => it.kind !== 'chunk',
    );
    if (body.kind === 'refused') throw refusedTicket(body.message);
    if (body.kind !== 'joined') throw refusedTicket('a member sent an unexpected reply');
    const digest = createHash('sha256');
    for (let chunk = 0; chunk < body.chunks; chunk += 1) {
      const { content } = await this.#ask(
        { kind: 'chunk', request, chunk },
        ({ body: it }) => it.kind === 'chunk' && it.chunk === chunk,
      );
      digest.update(content);
      await appendFile(file, content, { mode: 0o600 });
    }
    if (digest.digest('hex') !== body.sha256) {
      throw refusedTicket('the backup does not match its announced checksum; create a new ticket');
    }
    return body.secret;
  }

  /**
   * Repeats a request until a member sends the awaited reply.
   * @throws StoreError ERR_CLUSTER_TICKET
   */
  async #ask(request: JoinRequest, isMeant: (reply: Reply) => boolean): Promise<Reply> {
    const { LogCipher } = await loadLogEngine();
    const { id, key, cluster } = this.#ticket;
    const sealing = new LogCipher(Buffer.from(key, 'hex'), cluster, 'ticket');
    const end = new AbortController();
    const send = (): void => {
      const frame = encodeFrame(frameKinds.request, id, sealBody(sealing, request));
      this.#log.announce(frame);
    };
    const repeat = setInterval(send, repeatMs);
    let limit: NodeJS.Timeout | undefined;
    let isUnknown = false;
    try {
      return await new Promise<Reply>((resolve, reject) => {
        limit = setTimeout(() => {
          const problem = 'no member of the cluster answered';
          const why =
            'no member of the cluster accepted the ticket, and at least one member does not know the ticket; create a new one';
          reject(refusedTicket(isUnknown ? why : problem));
        }, answerLimitMs);
        this.#log.onAnnouncement((bytes) => {
          // Every client of NATS can send this frame, so it only changes the text of the error.
          if (decodeFrame(frameKinds.unknown, bytes)?.id === id) isUnknown = true;
          const frame = decodeFrame(frameKinds.reply, bytes);
          if (frame?.id !== id) return;
          const other = frame.sealed.subarray(0, publicKeyBytes);
          const opened = replyKey(key, this.#keys, other);
          // Every client of the log's servers can send replies, so this one may be forged.
          if (opened === undefined) return;
          const opening = new LogCipher(opened, cluster, 'ticket');
          const reply = openBody<JoinReply>(opening, frame.sealed.subarray(publicKeyBytes));
          if (reply?.body.request === this.#request && isMeant(reply)) resolve(reply);
        }, end.signal);
        send();
      });
    } finally {
      end.abort();
      clearInterval(repeat);
      clearTimeout(limit);
    }
  }
}
