import type { Logger } from 'pino';
import { type FixedConfig, type LiveConfig, storeDirectory } from '#config';
import { createJidSource } from '#minion-protocol';
import { diskSpaceOf, type EmbeddedStore, openEmbeddedStore, type Store, StoreError } from '#store';
import { Meter, meteredStore, RequestCounters } from '../metrics/index.ts';
import type { Closers } from './closers.ts';
import type { Cluster, Duties, SharedStore } from './cluster.ts';
import { createOwnStore } from './own-store.ts';
import type { StoreDisk } from './store-disk.ts';

/** Services that every module of a master uses: store, clock, log, counters and shutdown. */
export interface MasterContext {
  readonly store: Store;
  /** Part of the store that only this master uses. Outside a cluster, it is the whole store. */
  readonly ownStore: Store;
  /** Cluster that this master belongs to, or `undefined` outside a cluster. */
  readonly cluster: Cluster | undefined;
  /** Tasks that one member performs for the whole cluster, or `undefined` outside a cluster. */
  readonly duties: Duties | undefined;
  readonly disk: StoreDisk;
  /**
   * Directory in which modules may store files that belong to the store: the value of `state_dir`.
   * `undefined` if the program supplied its own store.
   */
  readonly stateDirectory: string | undefined;
  readonly meter: Meter;
  readonly counters: RequestCounters;
  /** Returns a new job id, which is later than all previous ids. */
  readonly nextJid: () => string;
  /** Clock: returns the time in milliseconds since 1970. */
  readonly now: () => number;
  readonly log: Logger;
  /** Registry of opened resources. The master closes them in reverse order. */
  readonly closers: Closers;
  /** Aborted when the master begins to close. */
  readonly closing: AbortSignal;
}

/** Configuration and context of a master, which every module of the master receives. */
export interface ModuleDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
}

/** Options of `createContext`. A program can supply some of them, for example its own store. */
export interface ContextOptions {
  readonly config: FixedConfig;
  /** Store that the program supplies. Default: the embedded store in `state_dir`. */
  readonly store?: Store | undefined;
  /** Opened store of a cluster member. `undefined` outside a cluster. */
  readonly shared?: SharedStore | undefined;
  readonly now?: (() => number) | undefined;
  readonly logger: Logger;
  /**
   * Called once, when another process has taken over the store. The master can then store nothing
   * any more.
   */
  readonly onReplaced: (error: Error) => void;
  readonly closers: Closers;
  readonly closing: AbortSignal;
}

/**
 * Creates the context and opens the store.
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_VERSION and other errors of opening a store
 */
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

/** Index of the last three digits of the microseconds in a jid. */
const microsecondsAt = 17;

/**
 * Maximum number of cluster members. In a larger cluster, two members could create equal job ids.
 */
export const slots = 16;

/**
 * Returns a function that generates jids. In a cluster, the last digits of the microseconds depend
 * on the member's slot, so that no other member generates the same jid.
 */
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

/** Wraps a store that the program supplied. The program itself must back up this store. */
function foreign(store: Store): OpenStore {
  const disk: StoreDisk = {
    isFull: () => false,
    space: async () => undefined,
    backup: async () => {
      throw new StoreError(
        'ERR_STORE_BACKUP',
        'backup is not available: the program supplied the store; back it up there',
      );
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
      if (isFull)
        log.error(
          { directory },
          'the disk of the store is full: the master stores no new data until the disk has free space',
        );
      else log.info({ directory }, 'the disk of the store has free space again');
      tell(isFull);
    },
    onUpgrade: ({ from, to, old }) =>
      log.warn(
        { from, to, old: old.file, bytes: old.bytes },
        'upgraded the store to the current layout, and kept a backup of the old store',
      ),
    onFenced: (error) => {
      log.fatal(
        { directory, err: error },
        'another process has taken over the store: the master stops',
      );
      onReplaced(error);
    },
  });
  const disk: StoreDisk = {
    isFull: () => store.isFull,
    space: () => diskSpaceOf(directory),
    backup: (target) => store.backup(target),
    onChange: (listener) => {
      tell = listener;
    },
  };
  return { store, disk };
}
