import type { BackupReceipt } from '#store';

/** Backups of the store, and the state of its disk. */
export interface StoreDisk {
  readonly isFull: () => boolean;
  /** Returns the size of the store and of the free space of its disk. `undefined` if unknown. */
  readonly space: () => Promise<number | undefined>;
  /**
   * Creates a backup of the store.
   * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL
   */
  readonly backup: (target: string) => Promise<BackupReceipt>;
  /**
   * Calls the listener with `true` when the disk becomes full, and with `false` when it has free
   * space again.
   */
  readonly onChange: (listener: (isFull: boolean) => void) => void;
}
