/** What every module of a master works with: its store, clock, log and counts, and its end. */

import type { Logger } from 'pino';
import { createJidSource } from '../../minion-protocol/index.ts';
import type { Closers } from '../../runtime/index.ts';
import {
  type BackupReceipt,
  type EmbeddedStore,
  openEmbeddedStore,
  type Store,
  StoreError,
} from '../../store/index.ts';
import { type FixedConfig, storeDirectory } from '../config/index.ts';
import { Meter, meteredStore, RequestCounters } from '../metrics/index.ts';

/** What a module is given besides the modules that it uses. */
export interface MasterContext {
  readonly store: Store;
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
  now = Date.now,
  logger: log,
  onReplaced,
  closers,
  closing,
}: ContextOptions): Promise<MasterContext> {
  const meter = new Meter();
  const { store, disk } =
    given === undefined
      ? await openOwnStore(config, { now, logger: log, onReplaced })
      : foreign(given);
  if (given === undefined) closers.add(store, (it) => it.close());
  return {
    store: meteredStore(store, meter),
    disk,
    stateDirectory: given === undefined ? config.stateDir : undefined,
    meter,
    counters: new RequestCounters(),
    nextJid: createJidSource(now, config.uniqueJid ? String(process.pid) : undefined),
    now,
    log,
    closers,
    closing,
  };
}

interface OpenStore {
  readonly store: Store;
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

async function openOwnStore(
  { stateDir }: FixedConfig,
  {
    now,
    logger,
    onReplaced,
  }: Pick<ContextOptions, 'logger' | 'onReplaced'> & { readonly now: () => number },
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
