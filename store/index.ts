/** What must survive: the store's interface and its engines. */
export type { BackupReceipt } from './backup.ts';
export { readBackup } from './backup-file.ts';
export type { StoreInspection } from './check-tables.ts';
export {
  type EmbeddedStore,
  type EmbeddedStoreOptions,
  openEmbeddedStore,
} from './embedded.ts';
export { engineVersion } from './engine-version.ts';
export {
  StoreError,
  type StoreErrorCode,
  type StoreErrorEntry,
  storeErrors,
} from './errors.ts';
export type { StoreHolder } from './holder.ts';
export { inspectStore } from './inspect.ts';
export { createMemoryStore, type MemoryStoreOptions } from './memory.ts';
export { readStore } from './read.ts';
export { type RestoreOptions, type RestoreReceipt, restoreStore } from './restore.ts';
export type {
  Change,
  Entry,
  Key,
  ListOptions,
  Operation,
  Store,
  Stream,
  StreamConsumer,
  StreamRecord,
} from './store.ts';
export type { StoreUpgrade } from './upgrade.ts';
