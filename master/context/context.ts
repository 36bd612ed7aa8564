/** What every module of a master works with: its store, clock, log and counts, and its end. */

import type { Logger } from 'pino';
import { type FixedConfig, type LiveConfig, storeDirectory } from '#config';
import { createJidSource } from '#minion-protocol';
import type { Closers } from '#runtime';
import { type EmbeddedStore, openEmbeddedStore, type Store, StoreError } from '#store';
import { Meter, meteredStore, RequestCounters } from '../metrics/index.ts';
import type { Cluster, Duties, SharedStore } from './cluster.ts';
import { createOwnStore } from './own-store.ts';
import type { StoreDisk } from './store-disk.ts';

/** What a module is given besides the modules that it uses. */
export interface MasterContext {
  readonly store: Store;
  /** What of the store this master alone reads and writes: all of it, unless others share it. */
  readonly ownStore: Store;
  /** `undefined`: this master shares its store with no other. */
  readonly cluster: Cluster | undefined;
  /** What one member of the cluster does for all; `undefined`: there is no other one. */
  readonly duties: Duties | undefined;
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

/** What each module of a master is opened with. */
export interface ModuleDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
}

/** The parts of a program that are not the master's own. */
export interface ContextOptions {
  readonly config: FixedConfig;
  /** Default: the embedded store in `state_dir`. */
  readonly store?: Store | undefined;
  /** The store of a member of a cluster. Default: this master shares its store with no other. */
  readonly shared?: SharedStore | undefined;
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
  shared,
  now = Date.now,
  logger: log,
  onReplaced,
  closers,
  closing,
}: ContextOptions): Promise<MasterContext> {
  const meter = new Meter();
  const embedded = { now, logger: log, onReplaced };
  const opened: OpenStore =
    shared ?? (given === undefined ? await openEmbedded(config, embedded) : foreign(given));
  const { store, disk, cluster } = opened;
  if (given === undefined) closers.add(store, (it) => it.close());
  const metered = meteredStore(store, meter);
  return {
    store: metered,
    ownStore: cluster === undefined ? metered : createOwnStore(metered, cluster.member),
    cluster,
    duties: shared && closers.add(shared.duties, (it) => it.close()),
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

/** Where jids of a tick of the clock begin with its microseconds. */
const microsecondsAt = 17;

/** Members whose job ids differ in any case. */
export const slots = 16;

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

type OpenOptions = Pick<ContextOptions, 'logger' | 'onReplaced'> & { readonly now: () => number };

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
