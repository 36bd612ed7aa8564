/**
 * `saltbridge/store`: the interface of a store, for programs that bring their own, and the two
 * stores that there are.
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
