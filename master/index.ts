/** `saltbridge`: a Salt-compatible master as a library. */
export type {
  EventsApi,
  EventsRequest,
  JobReceipt,
  JobsApi,
  KeyChange,
  KeyInfo,
  KeySelection,
  KeyState,
  KeysApi,
  LocalKeyInfo,
  MasterApi,
  MasterStatus,
  StoreApi,
} from './api.ts';
export {
  ConfigError,
  type ConfigErrorCode,
  configErrors,
} from './config/errors.ts';
export { type LoadedConfig, loadMasterConfig } from './config/load.ts';
export type { HashType, Limits, LogLevel, MasterConfig, MasterOptions } from './config/options.ts';
export { resolveMasterConfig } from './config/resolve.ts';
export type { ConfigWarning } from './config/warnings.ts';
export {
  type ErrorEntry,
  MasterError,
  type MasterErrorCode,
  masterErrors,
} from './errors.ts';
export type { MasterEvent } from './events/bus.ts';
export type { BatchRequest, BatchUpdate } from './jobs/batch.ts';
export type { PublishRequest } from './jobs/dispatcher.ts';
export type { JobListRequest, JobReport, JobSummary } from './jobs/history.ts';
export type { JobReturn } from './jobs/job.ts';
export type { Delivery, DeliveryState, SilenceReason } from './jobs/ledger.ts';
export { isFailureCode } from './jobs/retcode.ts';
export type { JobUpdate, RunRequest } from './jobs/run.ts';
export { KeyError, type KeyErrorCode, keyErrors } from './keys/errors.ts';
export { createLogger, logLevels } from './log.ts';
export { createMaster, type Master, type MasterParts } from './master.ts';
export { type OfflineKeys, openOfflineKeys } from './offline-keys.ts';
export { backupOfflineStore, inspectMasterStore, restoreMasterStore } from './offline-store.ts';
export type { Denial } from './requests/denial-log.ts';
export type { PillarProvider, PillarRequest } from './requests/pillar.ts';
// Shared with other rooms of this package; no promise.
/** @internal */
export { fromJson, toJson } from './rpc/json-values.ts';
export type { TargetRequest } from './targeting/parse.ts';
export type { PlannedMinion, TargetPlan } from './targeting/resolve.ts';
