export {
  type AuditActor,
  type AuditDetails,
  type AuditHead,
  type AuditRequester,
  isOfOperator,
  limitOwnerOf,
  type MethodAudit,
  minionOwner,
  type Requested,
  requesterName,
  type StoredHead,
  type WithRequester,
  workBudgetOf,
} from './audit.ts';
export { type ClusterApi, type ClusterStatus, isServingMember } from './cluster.ts';
export { MasterError, type MasterErrorCode, masterErrors } from './errors.ts';
export type {
  Denial,
  Distribution,
  MasterEvent,
  MetricFamily,
  ReloadReport,
  Sample,
} from './events.ts';
export {
  isRpcMethod,
  type MinionRunners,
  type NamedCommands,
  type ReactionResult,
  type RpcAccess,
  type RpcMethod,
  type RpcTable,
  type RpcTableOf,
  type WholeRequest,
} from './extensions.ts';
export {
  type FileLists,
  type FileServerBackend,
  type FileStat,
  type FoundFile,
  type ListRequester,
  noFiles,
} from './files.ts';
export type { FunctionCall, FunctionResult, StartedCall } from './functions.ts';
export type {
  AddressedMinions,
  BatchRequest,
  BatchUpdate,
  Delivery,
  DeliveryState,
  JobListRequest,
  JobOrigin,
  JobReport,
  JobReturn,
  JobSummary,
  JobUpdate,
  PlannedMinion,
  PresentMinion,
  PublishRequest,
  RunRequest,
  SilenceReason,
  TargetPlan,
  TargetRequest,
} from './jobs.ts';
export { createLogger, createRootLog, createSilentLogger, logLevels } from './log.ts';
export type {
  AclApi,
  AuditApi,
  CallOrigin,
  EventsApi,
  EventsRequest,
  InProcessApi,
  InProcessFunctionsApi,
  InProcessJobsApi,
  JobProgress,
  JobReceipt,
  KeyChange,
  KeyInfo,
  KeySelection,
  KeyState,
  KeysApi,
  MasterApi,
  MasterDescription,
  MasterStatus,
  MinionInfo,
  PillarApi,
  PillarExplanation,
  ReactionInfo,
  ReactionRun,
  ReactionsApi,
  RequesterJobs,
  StoreApi,
  TransportStatus,
  UserApi,
} from './master-api.ts';
export type {
  ExtPillar,
  PillarDifference,
  PillarInputs,
  PillarProvider,
  PillarRequest,
} from './pillar.ts';
export type { JoinedSite, ReportedRelease, SiteDetails, SiteDirectory } from './sites.ts';
export type { TopsProvider } from './tops.ts';
export {
  type ExplainRequest,
  explainActions,
  type LearnedPolicy,
  type LearnedRule,
  type Login,
  type LoginRequest,
  type RecordedDecision,
  type ReplayChange,
  type ReplayReport,
  type TokenInfo,
  type TokenSelection,
} from './users.ts';
export { version } from './version.ts';
