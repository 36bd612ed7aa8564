/** What every module of a master works with: its store, clock, log and counts, and its end. */

import type { Logger } from 'pino';
import { Duties, leaseKey } from '#cluster/duties.ts';
import { type Cluster, openCluster, slots } from '#cluster/open-cluster.ts';
import { type ClusterOptions, type FixedConfig, storeDirectory } from '#config';
import { createJidSource } from '#minion-protocol';
import type { Closers } from '#runtime';
import {
  type BackupReceipt,
  type EmbeddedStore,
  openEmbeddedStore,
  type Store,
  StoreError,
  type TransactionLog,
} from '#store';
import { Meter, meteredStore, RequestCounters } from '../metrics/index.ts';
import { createOwnStore } from './own-store.ts';

/** What a module is given besides the modules that it uses. */
export interface MasterContext {
  readonly store: Store;
  /** What of the store this master alone reads and writes: all of it, unless others share it. */
  readonly ownStore: Store;
  /** `undefined`: this master shares its store with no other. */
  readonly cluster: Cluster | undefined;
  /** What one member of the cluster does for all; `undefined`: there is no other one. */
  readonly duties: Pick<Duties, 'handOver' | 'isHeld' | 'onHeld' | 'resume' | 'write'> | undefined;
  readonly disk: StoreDisk;
  /** `state_dir`; `undefined`: the store is the program's, and so is all that is kept. */
  readonly stateDirectory: string | undefined;
  readonly meter: Meter;
  readonly counters: RequestCounters;
  /** A job id, later than all before it. */
  readonly nextJid: () => string;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly log: Logger;
  /** Closes what was opened, the last first. */
  readonly closers: Closers;
  /** Fires when the master begins to close. */
  readonly closing: AbortSignal;
}

/** Backups of the store, and whether its disk is full. */
interface StoreDisk {
  readonly isFull: () => boolean;
  /** @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL */
  readonly backup: (target: string) => Promise<BackupReceipt>;
  /** Calls the listener when the disk is found full, and when there is room again. */
  readonly onChange: (listener: (isFull: boolean) => void) => void;
}

/** The parts of a program that are not the master's own. */
export interface ContextOptions {
  readonly config: FixedConfig;
  /** Default: the embedded store in `state_dir`. */
  readonly store?: Store | undefined;
  /** Connects to the log of the cluster. Default: to that of its NATS servers. */
  readonly clusterLog?: (() => Promise<TransactionLog>) | undefined;
  readonly now?: (() => number) | undefined;
  readonly logger: Logger;
  /** Told once, when another process has taken the store over: nothing can be kept any more. */
  readonly onReplaced: (error: Error) => void;
  readonly closers: Closers;
  readonly closing: AbortSignal;
}

/** @throws StoreError ERR_STORE_LOCKED, ERR_STORE_VERSION, and what else opening may meet */
export async function createContext({
  config,
  store: given,
  clusterLog,
  now = Date.now,
  logger: log,
  onReplaced,
  closers,
  closing,
}: ContextOptions): Promise<MasterContext> {
  const meter = new Meter();
  const options = { now, logger: log, onReplaced, closing, clusterLog };
  const { store, disk, cluster } =
    given === undefined ? await openStore(config, options) : foreign(given);
  if (given === undefined) closers.add(store, (it) => it.close());
  const metered = meteredStore(store, meter);
  return {
    store: metered,
    ownStore: cluster === undefined ? metered : createOwnStore(metered, cluster.member),
    cluster,
    duties: cluster && openDuties(cluster, { now, log, closers }),
    disk,
    stateDirectory: given === undefined ? config.stateDir : undefined,
    meter,
    counters: new RequestCounters(),
    nextJid: jidSource(config, now, cluster),
    now,
    log,
    closers,
    closing,
  };
}

function openDuties(
  { store, member, follow }: Cluster,
  { now, log, closers }: Pick<MasterContext, 'closers' | 'log' | 'now'>,
): Duties {
  const duties = new Duties({
    store,
    member,
    refusesWrites: () => store.status.refusesWrites,
    now,
    log: log.child({ component: 'cluster' }),
  });
  follow(leaseKey, ({ type }) => {
    if (type === 'delete') duties.look();
  });
  return closers.add(duties, (it) => it.close());
}

/** Where jids of a tick of the clock begin with its microseconds. */
const microsecondsAt = 17;

/** Members of a cluster give no jid that another one may give. */
function jidSource(
  { uniqueJid }: FixedConfig,
  now: () => number,
  cluster: Cluster | undefined,
): () => string {
  const next = createJidSource(now, uniqueJid ? String(process.pid) : undefined);
  if (cluster === undefined) return next;
  return () => {
    const slot = cluster.slot();
    for (;;) {
      const jid = next();
      const microseconds = Number(jid.slice(microsecondsAt, microsecondsAt + 3));
      if (microseconds % slots === slot) return jid;
    }
  };
}

interface OpenStore {
  readonly store: Store;
  readonly cluster?: Cluster;
  readonly disk: StoreDisk;
}

/** A store that somebody else opened, who keeps its backups too. */
function foreign(store: Store): OpenStore {
  const disk: StoreDisk = {
    isFull: () => false,
    backup: async () => {
      throw new StoreError('ERR_STORE_BACKUP', 'this master was given its store by its program');
    },
    onChange: () => {},
  };
  return { store, disk };
}

interface OpenOptions
  extends Pick<ContextOptions, 'clusterLog' | 'closing' | 'logger' | 'onReplaced'> {
  readonly now: () => number;
}

function openStore(config: FixedConfig, options: OpenOptions): Promise<OpenStore> {
  return config.cluster === null
    ? openEmbedded(config, options)
    : openShared(config, config.cluster, options);
}

async function openShared(
  config: FixedConfig,
  options: ClusterOptions,
  { now, logger, onReplaced, closing, clusterLog }: OpenOptions,
): Promise<OpenStore> {
  const log = logger.child({ component: 'cluster' });
  let tell: (isFull: boolean) => void = () => {};
  const cluster = await openCluster({
    config,
    options,
    connect: clusterLog,
    now,
    closing,
    onFull: (isFull) => {
      if (isFull) log.error('disk of the store is full: this master falls behind the others');
      else log.info('disk of the store has room again');
      tell(isFull);
    },
    onLost: (error) => {
      log.fatal({ err: error }, 'this master is no longer a member of the cluster: it ends');
      onReplaced(error);
    },
  });
  const { member, name, store } = cluster;
  const { warnings } = store.status;
  log.info({ cluster: name, member, position: store.status.position }, 'member of a cluster');
  for (const warning of warnings) log.warn({ cluster: name }, warning);
  const disk: StoreDisk = {
    isFull: () => store.isFull,
    backup: (target) => store.backup(target),
    onChange: (listener) => {
      tell = listener;
    },
  };
  return { store, disk, cluster };
}

async function openEmbedded(
  { stateDir }: FixedConfig,
  { now, logger, onReplaced }: OpenOptions,
): Promise<OpenStore> {
  const log = logger.child({ component: 'store' });
  const directory = storeDirectory(stateDir);
  let tell: (isFull: boolean) => void = () => {};
  const store: EmbeddedStore = await openEmbeddedStore({
    directory,
    now,
    onFull: (isFull) => {
      if (isFull) log.error({ directory }, 'disk of the store is full: nothing new is kept');
      else log.info({ directory }, 'disk of the store has room again');
      tell(isFull);
    },
    onUpgrade: ({ from, to, old }) =>
      log.warn(
        { from, to, old: old.file, bytes: old.bytes },
        'store upgraded; the old one is kept',
      ),
    onFenced: (error) => {
      log.fatal({ directory, err: error }, 'another process has taken the store: master ends');
      onReplaced(error);
    },
  });
  const disk: StoreDisk = {
    isFull: () => store.isFull,
    backup: (target) => store.backup(target),
    onChange: (listener) => {
      tell = listener;
    },
  };
  return { store, disk };
}
