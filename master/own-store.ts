/** The store that a master opens for itself, and what is to be told of its disk. */
import type { Logger } from 'pino';
import {
  type BackupReceipt,
  type EmbeddedStore,
  openEmbeddedStore,
  StoreError,
} from '../store/index.ts';
import type { MasterConfig } from './config/options.ts';

/** Backups of the store, and whether its disk is full. */
export interface StoreKeeper {
  readonly isFull: () => boolean;
  /** @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL */
  readonly backup: (target: string) => Promise<BackupReceipt>;
  /** Calls the listener when the disk is found full, and when there is room again. */
  readonly onChange: (listener: (isFull: boolean) => void) => void;
}

/** For a store that somebody else opened, who keeps its backups too. */
export const foreignStore: StoreKeeper = {
  isFull: () => false,
  backup: async () => {
    throw new StoreError('ERR_STORE_BACKUP', 'this master was given its store by its program');
  },
  onChange: () => {},
};

/**
 * Opens the store in `state_dir`.
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_VERSION, and what else opening may meet
 */
export async function openOwnStore(
  { stateDir }: Pick<MasterConfig, 'stateDir'>,
  { now, log }: { readonly now: () => number; readonly log: Logger },
): Promise<{ readonly store: EmbeddedStore; readonly keeper: StoreKeeper }> {
  const directory = storeDirectory(stateDir);
  let tell: (isFull: boolean) => void = () => {};
  const store = await openEmbeddedStore({
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
  });
  const keeper: StoreKeeper = {
    isFull: () => store.isFull,
    backup: (target) => store.backup(target),
    onChange: (listener) => {
      tell = listener;
    },
  };
  return { store, keeper };
}

/** Where a master's own store lies. */
export function storeDirectory(stateDir: string): string {
  return `${stateDir}/store`;
}
