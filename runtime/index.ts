/**
 * Utilities for all other modules: mutexes and semaphores by key, budgets, connection limits, send
 * queues for slow readers, worker threads with deadlines, long work in steps, JSON with long
 * integers, directories, and file system errors. The directory `runtime/` imports no other
 * directory of the project.
 */

export { addressOwner } from './address-owner.ts';
export { addressSet } from './address-set.ts';
export { type AllowedEndpoint, originOf, parseAllowedEndpoints } from './allowed-endpoints.ts';
export { awaitResponse } from './await-response.ts';
export { createBoundedMap } from './bounded-map.ts';
export { BoundedQueue } from './bounded-queue.ts';
export { Budget, type BudgetLimits, type BudgetPart, releaseAll, tryTakeAll } from './budget.ts';
export { ByteAssembly } from './byte-assembly.ts';
export { compareTexts } from './compare-texts.ts';
export { compileSchema, type SchemaCheck } from './compile-schema.ts';
export { createDnsResolver } from './dns-resolver.ts';
export { type ErrorEntry, errorMessage, SaltbridgeError } from './errors.ts';
export { escapeMarkup } from './escape-markup.ts';
export { FairQueue } from './fair-queue.ts';
export { type FairSlot, FairSlots, KeyedFairSlots } from './fair-slots.ts';
export { FairTable } from './fair-table.ts';
export { FileReloader } from './file-reloader.ts';
export { formatNames } from './format-names.ts';
export {
  type ConfiguredEndpoint,
  createHttpClient,
  type HttpClient,
  type HttpResult,
  type OutgoingRequest,
  readEndpoint,
} from './http-client.ts';
export { intercept } from './intercept.ts';
export {
  JsonError,
  type JsonOf,
  type JsonValue,
  parseJson,
  parseJsonNumbers,
  rawNumber,
  tryParseJson,
  writeJson,
} from './json.ts';
export { readJsonAnswer } from './json-answers.ts';
export { integerOf64Bits, type JsonOptions, readJson, readJsonInSteps } from './json-reader.ts';
export { isSmallJson, type JsonForm, writeJsonInSteps } from './json-writer.ts';
export {
  type EntityReference,
  type IdentityToken,
  KeystoneClient,
  type KeystoneCredentials,
  readToken,
} from './keystone.ts';
export {
  defineLimits,
  type Limit,
  LimitExceeded,
  type LimitValues,
  type Rate,
  unlimitedWaiting,
} from './limits.ts';
export { LinkedList, type ListNode } from './linked-list.ts';
export { MessageTurns, type TurnTaker } from './message-turns.ts';
export { MultiMap } from './multi-map.ts';
export { nearestName } from './nearest-name.ts';
export { nkeySeedOf } from './nkey-seed.ts';
export { loadOptionalPackage, requireOptionalPackage } from './optional-package.ts';
export { isMap } from './plain-map.ts';
export {
  type BeforeStep,
  readTextIfPresent,
  syncDirectory,
  syncFile,
  writeFileAtomically,
} from './private-file.ts';
export { listenPrivately } from './private-socket.ts';
export { Throttle, TokenBuckets } from './rate-limits.ts';
export { readBlocks, readStream, readText } from './read-stream.ts';
export { RecentAnswers } from './recent-answers.ts';
export { openRegularFile, readRegularFile } from './regular-file.ts';
export { RepeatedWarnings } from './repeated-warnings.ts';
export { RequestAdmission } from './request-admission.ts';
export { type RouteOperation, routeSchema } from './route-schema.ts';
export { isSameSecret } from './same-secret.ts';
export { schemaErrors } from './schema-errors.ts';
export {
  nameOfType,
  type SchemaMistake,
  schemaMistakes,
  unknownName,
  type ValuePath,
} from './schema-mistakes.ts';
export { KeyedMutex, Mutex, Semaphore } from './semaphores.ts';
export { SendPool, SendQueue } from './send-pool.ts';
export { sortInSlices } from './sort-in-slices.ts';
export { type ReadingStep, readingSteps, StepScheduler } from './step-scheduler.ts';
export {
  codeOf,
  describeSystemError,
  directoriesOnTheWay,
  hashFile,
  ifPresent,
  isDiskFull,
  isMissing,
  makeDirectory,
  makeDirectorySync,
  processUser,
} from './system.ts';
export {
  delay,
  inMilliseconds,
  inTime,
  linkSignals,
  longestTimerMs,
  type RetryDelays,
  retryDelayMs,
  sleepUntilAborted,
  timeLimit,
} from './time-limit.ts';
export { trimEnd } from './trim-end.ts';
export { textInSteps } from './utf8-steps.ts';
export { estimateSize, isLargerThan, memoryOf, messageSizeOf } from './value-size.ts';
export {
  maxSliceSteps,
  minionWork,
  storedWork,
  unlimitedSteps,
  userWork,
  WorkBudget,
  WorkLimitExceeded,
  type WorkLimits,
  type WorkMeter,
} from './work-budget.ts';
export { WorkerPool, WorkerPoolError } from './worker-pool.ts';
