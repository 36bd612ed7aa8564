/** What must survive: the store's interface and its engines. */

export { type BackupReceipt, readBackup } from './backup.ts';
export { type ContentDigest, digestStore } from './content-digest.ts';
export { type HolderState, probeHolder } from './directory.ts';
export {
  detachFromLog,
  type EmbeddedStore,
  type EmbeddedStoreOptions,
  engineVersion,
  HeldTables,
  openEmbeddedStore,
  openHeldTables,
  prepareStoreDirectory,
  type StoreUpgrade,
} from './embedded.ts';
export {
  StoreError,
  type StoreErrorCode,
  storeErrors,
} from './errors.ts';
export { type HeldRow, HeldRows, type Hold } from './held-rows.ts';
export { copyStore, inspectStore, readStore, type StoreInspection } from './inspect.ts';
export { Lease } from './lease.ts';
export { createMemoryStore } from './memory.ts';
export { endHolder, hasEnded, ownIdentity } from './process-identity.ts';
export { type RestoreOptions, type RestoreReceipt, restoreStore } from './restore.ts';
export {
  Bytes,
  defineRow,
  type FieldCodec,
  fromJson,
  jsonField,
  type OldRow,
  type RowCodec,
  type RowOf,
  Texts,
} from './row-codec.ts';
export {
  type Change,
  type Entry,
  type Key,
  type ListOptions,
  type Operation,
  type Store,
  type Stream,
  type StreamConsumer,
  type StreamRecord,
  writeInParts,
} from './store.ts';
export { changeBelow, operationBelow, storeBelow } from './store-below.ts';
export type { KeyedChange, StreamStep, WriteStep } from './table-store.ts';
export {
  applyStreamStep,
  applyWrite,
  logStateKey,
  removeExpired,
  revisionKey,
  TableStore,
  unpackNumber,
} from './table-store.ts';
export type { Row, RowRange, RowTables, Table, Tables } from './tables.ts';
