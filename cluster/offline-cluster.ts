/** A cluster as masters begin it, join it, leave it and found it anew, while they do not run. */

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
import { delay, makeDirectory, readTextIfPresent, writeFileAtomically } from '#runtime';
import {
  detachFromLog,
  type Key,
  type Operation,
  restoreStore,
  type Store,
  StoreError,
} from '#store';
import { keepSeal, shareOwnKeys, writeOwnKeys } from './cluster-keys.ts';
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

/** How a cluster is reached. */
export interface OfflineClusterOptions {
  /** Default: the NATS servers of the configuration. */
  readonly connect?: (isFounding: boolean) => Promise<TransactionLog>;
  readonly now?: () => number;
  /** For so long no member may be heard before the log is begun anew. Default: 2,500. */
  readonly quietMs?: number;
}

/** What was done to a cluster. */
export interface ClusterReceipt {
  readonly cluster: string;
  readonly member: string;
  readonly secretFile: string;
}

/** Is there once the first member has put into the store what all share. */
const completeRow: Key = ['cluster', 'initialised'];

/** What each member keeps for itself; what a former single master kept is the first member's. */
const ownTables: readonly Key[] = [
  ['audit'],
  ['cache-banks'],
  ['decisions'],
  ['event-ring'],
  ['pillar-cache'],
  ['runner-queues'],
  ['state'],
];

/** What of these all members share, as the extensions keep it (`ExtensionHost.shared`). */
const sharedTables: readonly Key[] = [
  ['state', 'bridge'],
  ['state', 'salt-api'],
];

/** @throws MasterError ERR_NOT_SERVED where none is configured */
function clusterOptionsOf({ cluster, confFile }: MasterConfig): ClusterOptions {
  if (cluster !== null) return cluster;
  const expected = 'expected a map with name and nats; docs/cluster.md describes it';
  throw new MasterError(
    'ERR_NOT_SERVED',
    `${confFile}: saltbridge: cluster is not set, ${expected}`,
  );
}

/** The cluster of a configuration, and this master as its member. */
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
 * Makes the state and the keys of a master those of a new cluster, whose first member it is. What
 * was cut short is done again from where it was.
 * @param beforeFounding - looks at the store as that of a member; where it throws, there is no log
 * @throws StoreError ERR_CLUSTER_FOUNDED, ERR_CLUSTER_SECRET, ERR_STORE_LOCKED while it runs
 */
export async function initCluster(
  config: MasterConfig,
  options: OfflineClusterOptions = {},
  beforeFounding: () => Promise<void> = async () => {},
): Promise<ClusterReceipt> {
  const { now = Date.now } = options;
  const { cluster, receipt } = memberOf(config);
  const { member, secretFile } = receipt;
  // First: where this fails, no secret is there, and this master may join in place of it.
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
      const message = `cluster ${cluster.name} is initialised already; others join it by a ticket`;
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

/** @throws StoreError ERR_CLUSTER_FOUNDED where a cluster of this name has begun */
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
  const message = `cluster ${cluster.name} has begun already; others join it by a ticket`;
  throw new StoreError('ERR_CLUSTER_FOUNDED', message);
}

/** That of an attempt that was cut short, or of the operator, is used. */
async function makeSecret(file: string): Promise<Uint8Array> {
  if ((await readTextIfPresent(file)) === undefined) {
    await writeFileAtomically(file, `${randomBytes(secretBytes).toString('base64')}\n`, 0o600);
  }
  return readSecret(file);
}

/** They were moved, and the founding cut short then. */
function unlessOfCluster(error: unknown): void {
  if (!(error instanceof StoreError && error.code === 'ERR_CLUSTER_LOG')) throw error;
}

/** Made where there are none, so that all members have the same. */
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

/** What is moved already is there no longer, so it may be cut short. */
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

/** Opens the store as the member that this configuration is, for a moment. */
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
 * Takes this master out of its cluster. Its store is its own from then on, as it is then.
 * @throws StoreError ERR_STORE_LOCKED while it runs
 */
export async function leaveCluster(
  config: MasterConfig,
  options: OfflineClusterOptions = {},
): Promise<ClusterReceipt> {
  const { receipt } = memberOf(config);
  const { member } = receipt;
  await asMember(config, options, async (own, now) => {
    await keepSeal(config, own.store, own);
    await writeOwnKeys(config, own.store, { cluster: own, now });
    // What others decided while this one was stopped.
    await writeMinionKeys(own.store, await PkiDir.open(config.pkiDir));
    await own.store.removeMember(member);
  });
  await detachMember(storeDirectory(config.stateDir), member, options.now);
  await giveToOwners([config.stateDir, config.pkiDir]);
  return receipt;
}

/** What of a store only a cluster uses. A master by itself has its keys in files. */
export const clusterTables: readonly Key[] = [
  ['cluster'],
  ['denied-keys'],
  ['keys'],
  ['leases'],
  ['members'],
];

/** Makes the store of a member that of a master by itself. No process may have it open. */
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

/** A cluster as it was at an earlier time. */
export interface RestorePoint {
  /** A backup of a member from before. */
  readonly file: string;
  /** How much of what the log has after it is applied. Default: all. */
  readonly until?: ReplayPoint;
}

/** A cluster whose log begins anew. */
export interface RefoundReceipt extends ClusterReceipt {
  /** Where a backup was given: how far the log was replayed onto it. */
  readonly restored?: ReplayReceipt & {
    /** The directory that holds the store as it was before; `undefined` if there was none. */
    readonly old: string | undefined;
  };
}

/**
 * Begins the log anew with the store of this master, after the log was lost, or its end was; or, with
 * a backup, as the cluster was at an earlier time. The others join it anew. Until the log is begun
 * anew it has all that it had.
 * @throws StoreError ERR_STORE_LOCKED while it, or another member, runs; ERR_STORE_BACKUP,
 * ERR_STORE_CORRUPT, ERR_CLUSTER_BEHIND, ERR_STORE_DIVERGED where the log is not that of the backup
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
    await assertNobodyRuns(log, { secret, cluster: cluster.name, quietMs: options.quietMs });
    if (point !== undefined) restored = await restorePoint(config, point, { log, secret });
    const directory = storeDirectory(config.stateDir);
    await foundLog({ log, secret, cluster: cluster.name, directory, replace: true });
  } finally {
    await log.close();
  }
  await giveToOwners([config.stateDir, config.pkiDir]);
  return restored === undefined ? receipt : { ...receipt, restored };
}

/** More than two reports of a member. */
const quietMs = 2500;

interface QuietOptions {
  readonly secret: Uint8Array;
  readonly cluster: string;
  readonly quietMs: number | undefined;
}

/** @throws StoreError ERR_STORE_LOCKED where a member is heard: what it writes would be lost */
async function assertNobodyRuns(
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
    const message = `members of cluster ${cluster} run still: stop all of them first`;
    throw new StoreError('ERR_STORE_LOCKED', message);
  }
}

/** Makes the store of this master that of a backup and what the log has after it, up to a point. */
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
    // A history of its own: members that hold what it held do not follow what it is from now on.
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

/** Between two requests that are not answered. */
const repeatMs = 1000;
/** For so long a member that knows the ticket is waited for when another one does not. */
const unknownMs = 2000;
/** For so long nobody answers before it is given up. */
const answerLimitMs = 20_000;

/**
 * Joins a cluster: shows the ticket to its members, and takes over the secret and the store from
 * the one that answers. Nothing is changed here before all of it has come.
 * @throws StoreError ERR_CLUSTER_TICKET; ERR_CLUSTER_FOUNDED where this master is a member, or has
 * a store of its own already
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
      `it is for cluster ${ticket.cluster}, and this master is of ${cluster.name}`,
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

/** @param fetchBackup - writes the backup of a member to a file, and gives the secret */
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
    // Last: without it no master starts as a member.
    await writeFileAtomically(secretFile, `${secret}\n`, 0o600);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function refusedTicket(reason: string): StoreError {
  return new StoreError('ERR_CLUSTER_TICKET', `the ticket is refused: ${reason}`);
}

/** @throws StoreError ERR_CLUSTER_FOUNDED */
async function assertNothingHere({ stateDir }: MasterConfig, secretFile: string): Promise<void> {
  if ((await readTextIfPresent(secretFile)) !== undefined) {
    const message = `${secretFile} is there: this master is a member already`;
    throw new StoreError('ERR_CLUSTER_FOUNDED', message);
  }
  const data = path.join(storeDirectory(stateDir), 'data.mdb');
  const found = await stat(data).catch(() => undefined);
  if (found === undefined) return;
  const message = `${data} is the store of a master of its own: move ${stateDir} away, or begin the cluster with it (saltbridge cluster init)`;
  throw new StoreError('ERR_CLUSTER_FOUNDED', message);
}

type Reply = { readonly body: JoinReply; readonly content: Buffer };

/** The requests of one master that joins, and what is answered. */
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

  /** Writes the backup of the member that answers to a file. @returns the secret, base64 */
  async run(file: string): Promise<string> {
    const request = this.#request;
    const publicKey = this.#keys.publicKey.toString('base64');
    const { body } = await this.#ask(
      { kind: 'join', request, member: this.#member, publicKey },
      ({ body: it }) => it.kind !== 'chunk',
    );
    if (body.kind === 'refused') throw refusedTicket(body.message);
    if (body.kind !== 'joined') throw refusedTicket('a member answered something else');
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
      throw refusedTicket('what the member sent is not what it announced; make another ticket');
    }
    return body.secret;
  }

  /** Asks until a member answers what is meant. @throws StoreError ERR_CLUSTER_TICKET */
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
    let unknown: NodeJS.Timeout | undefined;
    try {
      return await new Promise<Reply>((resolve, reject) => {
        limit = setTimeout(() => {
          reject(refusedTicket('no member of the cluster answers'));
        }, answerLimitMs);
        this.#log.onAnnouncement((bytes) => {
          if (decodeFrame(frameKinds.unknown, bytes)?.id === id) {
            // A member that knows it has answered by then.
            unknown ??= setTimeout(() => {
              reject(refusedTicket('no member knows it, or it was forgotten'));
            }, unknownMs);
          }
          const frame = decodeFrame(frameKinds.reply, bytes);
          if (frame?.id !== id) return;
          const other = frame.sealed.subarray(0, publicKeyBytes);
          const opened = replyKey(key, this.#keys, other);
          // Whoever reaches the log's servers may announce what looks like a reply.
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
      clearTimeout(unknown);
    }
  }
}
