/** Durable storage: the store interface and its engines. */

export { type BackupReceipt, readBackup } from './backup.ts';
export type { KeyedChange } from './change-feed.ts';
export type { StoreInspection } from './check-tables.ts';
export { copyStore, readStore } from './closed-store.ts';
export { type ContentDigest, digestStore } from './content-digest.ts';
export { type HolderState, probeHolder } from './directory.ts';
export { diskSpaceOf } from './disk-space.ts';
export {
  detachFromLog,
  type EmbeddedStore,
  type EmbeddedStoreOptions,
  HeldTables,
  openEmbeddedStore,
  openHeldTables,
  prepareStoreDirectory,
} from './embedded.ts';
export {
  StoreError,
  type StoreErrorCode,
  storeErrors,
} from './errors.ts';
export { removeExpired } from './expiry.ts';
export { type HeldRow, HeldRows, type Hold } from './held-rows.ts';
export { inspectStore } from './inspect.ts';
export { engineVersion } from './lmdb-tables.ts';
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
export { logStateKey, revisionKey, unpackNumber } from './row-layout.ts';
export {
  type Change,
  type Entry,
  isConflict,
  type Key,
  type ListOptions,
  type Operation,
  retryConflicts,
  type Store,
  type Stream,
  type StreamConsumer,
  type StreamRecord,
  tryToWrite,
  writeInParts,
} from './store.ts';
export { changeBelow, operationBelow, storeBelow } from './store-below.ts';
export { TableStore } from './table-store.ts';
export { applyStreamStep, type StreamStep } from './table-stream.ts';
export type { RowTables, Table, Tables } from './tables.ts';
export { applyWrite, type WriteStep } from './write-steps.ts';
