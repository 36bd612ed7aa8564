/** `saltbridge`: a Salt-compatible master as a library. */
export type { Explanation, LintFinding, NearRule } from '../acl/index.ts';
export { StoreError, type StoreErrorCode } from '../store/index.ts';
export { type AddressSet, addressSet } from './address-set.ts';
export type {
  AclApi,
  AuditApi,
  CreatedKey,
  EventsApi,
  EventsRequest,
  FunctionsApi,
  JobProgress,
  JobReceipt,
  JobsApi,
  KeyChange,
  KeyInfo,
  KeySelection,
  KeyState,
  KeysApi,
  LearnRequest,
  LocalKeyInfo,
  LoginsApi,
  MasterApi,
  MasterStatus,
  MinionInfo,
  NewKey,
  PillarApi,
  PillarExplanation,
  PillarQuestion,
  ReactionInfo,
  ReactionRun,
  ReactionRunsRequest,
  ReactionsApi,
  ReplayRequest,
  StoreApi,
  TransportStatus,
  UserApi,
  UserEventsApi,
} from './api.ts';
// Shared with other rooms of this package; no promise.
/** @internal */
export { ArgumentReader, isReaderBusy } from './arguments/argument-reader.ts';
/** @internal */
export {
  type FunctionArguments,
  isKeywordText,
  parseArgument,
  parseArguments,
} from './arguments/arguments.ts';
/** @internal */
export { maxPlainDepth, toPlainValue } from './arguments/plain-value.ts';
/** @internal */
export { isPlainYamlText, parseYaml } from './arguments/yaml.ts';
export { AuditBursts, type AuditBurstsOptions } from './audit/bursts.ts';
export type { AuditHead } from './audit/chain.ts';
export type { StoredHead } from './audit/head.ts';
export { type AuditFilter, readAuditLog, verifyAuditLog } from './audit/read.ts';
export type {
  AuditActor,
  AuditEntry,
  AuditOutcome,
  AuditRecord,
  AuditTrail,
} from './audit/record.ts';
export type { AuditRequester } from './audit/requester.ts';
export {
  type AuditProblem,
  type AuditReport,
  type ExpectedLog,
  verifyAudit,
} from './audit/verify.ts';
export { type CandidatePolicy, loadCandidatePolicy } from './config/candidate.ts';
export type { EauthOptions, ExpireOverride } from './config/eauth-options.ts';
export {
  ConfigError,
  type ConfigErrorCode,
  configErrors,
} from './config/errors.ts';
export type { HttpApiOptions } from './config/http-api-options.ts';
export type { ReloadReport } from './config/live-config.ts';
export { type LoadedConfig, loadMasterConfig } from './config/load.ts';
export type {
  AclOptions,
  HashType,
  Limits,
  LogLevel,
  MasterConfig,
  MasterOptions,
  SignalRule,
} from './config/options.ts';
export { resolveMasterConfig } from './config/resolve.ts';
export type { SslOptions } from './config/ssl.ts';
export { type LoadedTenants, loadTenants, type Tenant } from './config/tenants.ts';
export type { TransportName, TransportOptions, TransportOpts } from './config/transport-opts.ts';
export type { ConfigWarning } from './config/warnings.ts';
export type { LearnedPolicy, LearnedRule } from './decisions/learn.ts';
export { learnedText } from './decisions/learn-text.ts';
export type { RecordedDecision } from './decisions/record.ts';
export type { ReplayChange, ReplayReport } from './decisions/replay.ts';
export { type DoctorOptions, examine } from './doctor/doctor.ts';
export type { DiskRoom, DoctorWorld } from './doctor/patient.ts';
export type { DoctorCode, DoctorFinding, DoctorReport } from './doctor/report.ts';
export {
  AuthenticationError,
  type AuthenticationErrorCode,
  AuthorizationError,
  authenticationErrors,
  authorizationErrors,
} from './eauth/errors.ts';
/** @internal */
export {
  type EntityReference,
  type IdentityToken,
  logInBody,
  readToken,
  tokensUrl,
} from './eauth/identity-v3.ts';
export type { Login, LoginRequest, TokenInfo, TokenSelection } from './eauth/logins.ts';
/** @internal */
export { RecentAnswers } from './eauth/recent-answers.ts';
/** @internal */
export { TokenWatch } from './eauth/token-watch.ts';
export {
  type ErrorEntry,
  MasterError,
  type MasterErrorCode,
  masterErrors,
} from './errors.ts';
export type { MasterEvent } from './events/bus.ts';
/** @internal */
export { missedBySlowReader } from './events/event-ring.ts';
export type {
  ExtensionHost,
  MasterExtension,
  NamedCall,
  NamedCommands,
  OpenExtension,
  SignalIntake,
  TargetBounds,
  TokenHolder,
} from './extensions/extension.ts';
export { actorOf } from './extensions/open.ts';
export type { StateArea, StateEntry, StateOperation } from './extensions/state-area.ts';
export {
  type FileLists,
  type FileServerBackend,
  type FileStat,
  type FoundFile,
  noFiles,
} from './fileserver/backend.ts';
export {
  createMemoryFiles,
  type MemoryContent,
  type MemoryFiles,
} from './fileserver/memory-files.ts';
export { type FileServerOptions, openFileRoots } from './fileserver/open.ts';
// Shared with other rooms of this package; no promise.
/** @internal */
export { inTime } from './in-time.ts';
export { joinKeywords, separateKeywords } from './jobs/arguments.ts';
export type { BatchRequest, BatchUpdate } from './jobs/batch.ts';
export type { PublishRequest } from './jobs/dispatcher.ts';
export type { JobUpdate } from './jobs/follow.ts';
export type { JobListRequest, JobReport, JobSummary } from './jobs/history.ts';
export { type JobReturn, returnerOf } from './jobs/job.ts';
export type { Delivery, DeliveryState, SilenceReason } from './jobs/ledger.ts';
export { isFailureCode } from './jobs/retcode.ts';
export type { RunRequest } from './jobs/run.ts';
export type { Admission, AdmittedKey, HeldKey } from './keys/admission.ts';
export { KeyError, type KeyErrorCode, keyErrors } from './keys/errors.ts';
/** @internal */
export { literalGlob } from './keys/literal-glob.ts';
/** @internal */
export { TokenBuckets } from './limits/token-bucket.ts';
export { type LinkedSignal, linkSignals } from './linked-signal.ts';
export {
  createLogger,
  createRootLog,
  createSilentLogger,
  type LogTarget,
  logLevels,
  type RootLog,
} from './log.ts';
export { longestTimerMs } from './longest-timer.ts';
export { createMaster, type Master, type MasterParts } from './master.ts';
export type { MetricFamily } from './metrics/families.ts';
export type { Distribution, Sample } from './metrics/instruments.ts';
export { checkMigration } from './migration/check.ts';
export type { Listening } from './migration/listeners.ts';
export { policyText } from './migration/policy-text.ts';
export type {
  PlannedReactionRule,
  ReactionPlan,
  UnderivableReaction,
} from './migration/reaction-plan.ts';
export type { MigrationFinding, MigrationOutcome, MigrationReport } from './migration/report.ts';
export type { PlannedRule, SignalPlan, UnplannedPattern } from './migration/signal-plan.ts';
export { type OfflineKeys, openOfflineKeys } from './offline-keys.ts';
export { backupOfflineStore, inspectMasterStore, restoreMasterStore } from './offline-store.ts';
export type { PillarDifference } from './pillar/difference.ts';
export type { PillarOrigin } from './pillar/explain.ts';
export { type ExtPillarFilesOptions, extPillarFiles } from './pillar/ext-files.ts';
export { type ExtPillarHttpOptions, extPillarHttp } from './pillar/ext-http.ts';
export type { ExtPillar, ExtPillarRequest } from './pillar/ext-pillar.ts';
export type { PillarTextFormat } from './pillar/ext-text.ts';
export type { ExplainRequest } from './policy/explain.ts';
export { lintConfiguredPolicy } from './policy/lint.ts';
export type { PresenceEvidence, PresentMinion } from './presence/present.ts';
export type { Occurrence } from './reactions/intake.ts';
export {
  type CallValue,
  type CommandAction,
  type MappedCall,
  type MappedValue,
  type Reaction,
  type ReactionAction,
  type ReactionOptions,
  type ReactionTarget,
  type RunAction,
  reaction,
} from './reactions/reaction.ts';
export type { ReactionOutcome, ReactionResult } from './reactions/reaction-run.ts';
export type { KeyAdvice, OfferedKey } from './requests/auth.ts';
export type { Denial } from './requests/denial-log.ts';
export type { PillarProvider, PillarRequest } from './requests/pillar.ts';
export type { Tops, TopsProvider, TopsRequest } from './requests/tops.ts';
/** @internal */
export { type RpcAccess, rpcAccess } from './rpc/access.ts';
/** @internal */
export { fromJson, readMarkedJson, toJson, writeMarkedJson } from './rpc/json-values.ts';
/** @internal */
export {
  type MethodDefinition,
  method as extensionMethod,
  type RpcMethod,
  rpcMethods,
} from './rpc/methods.ts';
/** @internal */
export { failCall, parseParameters, refuseMethod, serveCall } from './rpc/serve-call.ts';
export type { FunctionCall, FunctionResult, StartedCall } from './runners/caller.ts';
/** @internal */
export { readTextIfPresent, writeFileAtomically } from './secrets/private-file.ts';
export type { TargetRequest } from './targeting/parse.ts';
export type { PlannedMinion, TargetPlan } from './targeting/resolve.ts';
export { type TimeLimit, timeLimit } from './time-limit.ts';
/** @internal */
export { version } from './version.ts';
