/**
 * `saltbridge`: a Salt master in the process of a program.
 *
 * {@link createMaster} creates a master. {@link serve} starts what the command `saltbridge master`
 * starts: a master with the bridge and the HTTP API.
 *
 * @packageDocumentation
 */

export type { Explanation, PolicyRule } from '#acl';
export type { Reaction, ReactionAction, ReactionOptions } from '#config';
export {
  ConfigError,
  type ConfigWarning,
  type Limits,
  loadSaltConfig,
  type MasterConfig,
  type PlainOptions,
  reaction as defineReaction,
  type SaltConfig,
  type SignalRule,
} from '#config';
export {
  type BatchRequest,
  type BatchUpdate,
  createMemoryFiles,
  type Delivery,
  type Denial,
  type EventsRequest,
  type ExplainRequest,
  type ExtensionHost,
  type ExtPillar,
  extensionMethod,
  extensionStream,
  type FileServerBackend,
  type FunctionCall,
  type FunctionResult,
  type JobReceipt,
  type JobReport,
  type JobReturn,
  type JobSummary,
  type JobUpdate,
  type KeyInfo,
  type KeySelection,
  type KeyState,
  type LearnedPolicy,
  type Login,
  type LoginRequest,
  type Master,
  type MasterApi,
  MasterError,
  type MasterEvent,
  type MasterExtension,
  type MasterStatus,
  type MemoryFiles,
  type MetricFamily,
  type MinionInfo,
  type OpenExtension,
  type PillarDifference,
  type PillarExplanation,
  type PillarProvider,
  type PillarRequest,
  type PresentMinion,
  type PublishRequest,
  type ReactionInfo,
  type ReactionRun,
  type ReloadReport,
  type ReplayReport,
  type RunRequest,
  type TargetPlan,
  type TargetRequest,
  type TokenInfo,
  type TopsProvider,
  type UserApi,
  version,
} from '#master';
export type { MasterErrorCode } from '#master/api/errors.ts';
export type { WireMap, WireValue } from '#minion-protocol';
export { type JsonValue, SaltbridgeError } from '#runtime';
export { extPillarFiles, extPillarHttp, openFileRoots } from '#salt';
export {
  type CreateMasterOptions,
  createMaster,
  type MasterServer,
  type ServeOptions,
  serve,
} from '#server';
