import type { BackupReceipt } from '#store';

/** Backups of the store, and whether its disk is full. */
export interface StoreDisk {
  readonly isFull: () => boolean;
  /** @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL */
  readonly backup: (target: string) => Promise<BackupReceipt>;
  /** Calls the listener when the disk is found full, and when there is room again. */
  readonly onChange: (listener: (isFull: boolean) => void) => void;
}
