/** What must survive: the store's interface and its engines. */

export type { LogCipher as SealedFrames } from '#cluster/log/cipher.ts';
export type { LogStore } from '#cluster/log/log-store.ts';
export type { ReplayPoint, ReplayReceipt } from '#cluster/log/replay.ts';
export type { TransactionLog } from '#cluster/log/transaction-log.ts';
export { type BackupReceipt, readBackup } from './backup.ts';
export { type ContentDigest, digestStore } from './content-digest.ts';
export { type HolderState, probeHolder } from './directory.ts';
export {
  detachFromLog,
  type EmbeddedStore,
  type EmbeddedStoreOptions,
  engineVersion,
  openEmbeddedStore,
  prepareStoreDirectory,
  type StoreUpgrade,
} from './embedded.ts';
export {
  StoreError,
  type StoreErrorCode,
  storeErrors,
} from './errors.ts';
export { copyStore, inspectStore, readStore, type StoreInspection } from './inspect.ts';
export { Lease } from './lease.ts';
export { loadLogEngine } from './log-engine.ts';
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
