/** What must survive: the store's interface and its engines. */
export { type EmbeddedStoreOptions, openEmbeddedStore } from './embedded.ts';
export { engineVersion } from './engine-version.ts';
export {
  StoreError,
  type StoreErrorCode,
  type StoreErrorEntry,
  storeErrors,
} from './errors.ts';
export { inspectStore } from './inspect.ts';
export { createMemoryStore, type MemoryStoreOptions } from './memory.ts';
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
