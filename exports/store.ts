/**
 * `saltbridge/store`: the store interface, for programs with their own store, and the two built-in
 * stores.
 *
 * @packageDocumentation
 */

export {
  type BackupReceipt,
  type Change,
  createMemoryStore,
  type EmbeddedStore,
  type EmbeddedStoreOptions,
  type Entry,
  inspectStore,
  type Key,
  type ListOptions,
  type Operation,
  openEmbeddedStore,
  type RestoreOptions,
  type RestoreReceipt,
  restoreStore,
  type Store,
  StoreError,
  type StoreErrorCode,
  type StoreInspection,
  type Stream,
  type StreamConsumer,
  type StreamRecord,
} from '#store';
