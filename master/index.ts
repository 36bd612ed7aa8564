/** `saltbridge`: a Salt-compatible master as a library. */
export type { Explanation, LintFinding, NearRule } from '../acl/index.ts';
export { StoreError, type StoreErrorCode } from '../store/index.ts';
export { type AddressSet, addressSet } from '../runtime/address-set.ts';
export type { AclApi, AuditApi, CreatedKey, EventsApi, EventsRequest, FunctionsApi, JobProgress, JobReceipt, JobsApi, KeyChange, KeyInfo, KeySelection, KeyState, KeysApi, LearnRequest, LocalKeyInfo, LoginsApi, MasterApi, MasterStatus, MinionInfo, NewKey, PillarApi, PillarExplanation, PillarQuestion, ReactionInfo, ReactionRun, ReactionRunsRequest, ReactionsApi, ReplayRequest, StoreApi, TransportStatus, UserApi, UserEventsApi } from './api/master-api.ts';
// Shared with other rooms of this package; no promise.
/** @internal */
export { ArgumentReader, isReaderBusy } from './arguments/argument-reader.ts';
/** @internal */
export { type FunctionArguments, isKeywordText, parseArgument, parseArguments, maxPlainDepth, toPlainValue } from './arguments/arguments.ts';
/** @internal */
export { isPlainYamlText, parseYaml } from './arguments/yaml.ts';
export { AuditBursts, type AuditBurstsOptions, type AuditEntry, type AuditOutcome, type AuditRecord, type AuditTrail } from './audit/audit-log.ts';
export { type AuditHead, type StoredHead, type AuditActor, type AuditRequester } from './api/audit.ts';
export { type AuditFilter, readAuditLog, verifyAuditLog, type AuditProblem, type AuditReport, type ExpectedLog, verifyAudit } from './audit/verify.ts';
export { type CandidatePolicy, loadCandidatePolicy } from './config/policy-rules.ts';
export type { EauthOptions, ExpireOverride } from './config/option-table.ts';
export { ConfigError, type ConfigErrorCode, configErrors, type ConfigWarning } from './config/option-kinds.ts';
export type { HttpApiOptions } from './config/http-api-options.ts';
export type { ReloadReport, MasterEvent, MetricFamily, Distribution, Sample, Denial } from './api/events.ts';
export { type LoadedConfig, loadMasterConfig } from './config/load.ts';
export { type AclOptions, type HashType, type Limits, type MasterConfig, type MasterOptions, type SignalRule } from './config/options.ts';
export { type LogLevel, createLogger, createRootLog, createSilentLogger, type LogTarget, logLevels, type RootLog } from './api/log.ts';
export { resolveMasterConfig } from './config/resolve.ts';
export type { SslOptions, TransportName, TransportOptions, TransportOpts } from './config/transport-options.ts';
export { type LoadedTenants, loadTenants, type Tenant } from './config/tenants.ts';
export type { LearnedPolicy, LearnedRule, ReplayChange, ReplayReport, RecordedDecision, Login, LoginRequest, TokenInfo, TokenSelection, ExplainRequest } from './api/users.ts';
export { learnedText } from './users/learn.ts';
export { type DoctorOptions, runDoctor, type DiskRoom, type SystemInfo, type DoctorCode, type DoctorFinding, type DoctorReport } from '../ops/diagnostics/run-doctor.ts';
export { AuthenticationError, type AuthenticationErrorCode, AuthorizationError, authenticationErrors, authorizationErrors } from './users/errors.ts';
/** @internal */
export { type EntityReference, type IdentityToken, logInBody, readToken, tokensUrl } from './users/keystone.ts';
/** @internal */
export { RecentAnswers } from '../runtime/recent-answers.ts';
/** @internal */
export { TokenWatch } from './users/tokens.ts';
export { type ErrorEntry, MasterError, type MasterErrorCode, masterErrors } from './api/errors.ts';
/** @internal */
export { missedBySlowReader } from './events/event-ring.ts';
export { type ExtensionHost, type MasterExtension, type OpenExtension, type SignalIntake, type TargetBounds, type TokenHolder, actorOf, type StateArea, type StateEntry, type StateOperation } from './requests/extensions.ts';
export type { NamedCall, NamedCommands, ReactionResult, RpcMethod } from './api/extensions.ts';
export { type FileLists, type FileServerBackend, type FileStat, type FoundFile, noFiles, type FileServerOptions, openFileRoots } from './files/file-server.ts';
export { createMemoryFiles, type MemoryContent, type MemoryFiles } from './files/memory-files.ts';
// Shared with other rooms of this package; no promise.
/** @internal */
export { inTime, type LinkedSignal, linkSignals, longestTimerMs, type TimeLimit, timeLimit } from '../runtime/time-limit.ts';
export { joinKeywords, separateKeywords } from './jobs/job-arguments.ts';
export type { BatchRequest, BatchUpdate, RunRequest, PublishRequest, JobUpdate, Delivery, DeliveryState, SilenceReason, JobListRequest, JobReport, JobSummary, JobReturn, PresenceEvidence, PresentMinion, TargetRequest, PlannedMinion, TargetPlan } from './api/jobs.ts';
export { returnerOf, isFailureCode } from './jobs/job.ts';
export type { KeyLifecycle, AdmittedKey, HeldKey } from './auth/key-lifecycle.ts';
export { KeyError, type KeyErrorCode, keyErrors, literalGlob } from './auth/key-store.ts';
/** @internal */
export { TokenBuckets } from '../runtime/token-bucket.ts';
export { createMaster, type Master, type MasterParts } from './master.ts';
export { checkMigration, type MigrationFinding, type MigrationOutcome, type MigrationReport } from '../ops/migration/check-migration.ts';
export { type Listening, type PlannedRule, type SignalPlan, type UnplannedPattern } from './config/signal-plan.ts';
export { policyText } from '../ops/migration/policy-text.ts';
export type { PlannedReactionRule, ReactionPlan, UnderivableReaction } from '../ops/migration/reaction-plan.ts';
export { type OfflineKeys, openOfflineKeys } from './auth/keys-api.ts';
export { backupOfflineStore, inspectMasterStore, restoreMasterStore } from './core-services.ts';
export type { PillarDifference, PillarOrigin, PillarTextFormat, PillarProvider, PillarRequest } from './api/pillar.ts';
export { type ExtPillarFilesOptions, extPillarFiles, type ExtPillarHttpOptions, extPillarHttp, type ExtPillar, type ExtPillarRequest } from './data/ext-pillar.ts';
export { lintConfiguredPolicy } from './users/policy.ts';
export type { TriggerEvent } from './reactor/reactions.ts';
export type { CallValue, CommandAction, MappedCall, MappedValue, Reaction, ReactionAction, ReactionOptions, ReactionTarget, RunAction, ReactionOutcome } from './api/reactions.ts';
export { reaction } from './config/reactions.ts';
export type { KeyAcceptanceHook, OfferedKey } from './auth/sign-in.ts';
export { type Tops, type TopsProvider, type TopsRequest } from './requests/minion-requests.ts';
/** @internal */
export { type RpcAccess, rpcAccess, type MethodDefinition, method as extensionMethod, rpcMethods } from './rpc/methods.ts';
/** @internal */
export { fromJson, readMarkedJson, toJson, writeMarkedJson } from './arguments/json-values.ts';
/** @internal */
export { failCall, parseParameters, refuseMethod, serveCall } from './rpc/server.ts';
export { type FunctionCall, type FunctionResult, type StartedCall } from './api/functions.ts';
/** @internal */
export { readTextIfPresent, writeFileAtomically } from '../runtime/private-file.ts';
/** @internal */
export { version } from './api/version.ts';
