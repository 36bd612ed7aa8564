/** `saltbridge/bridge`: named commands, enrolment and signals for orchestration services. */
export {
  type AnyCommands,
  type AnyPlans,
  type Bridge,
  type BridgeOptions,
  type CommandsOf,
  type CommandTypes,
  createBridge,
  type PlansOf,
  type PlanTypes,
} from './bridge.ts';
export type { Parameters } from './catalog/argument-values.ts';
export { Catalog } from './catalog/catalog.ts';
export {
  type ArgumentSource,
  type CommandDefinition,
  type ConcurrencyLimit,
  command,
  type JsonSchema,
  type JsonValue,
  type TypedCommand,
} from './catalog/definition.ts';
export { type CommandInfo, describeCommand } from './catalog/describe.ts';
export { type CatalogFinding, type LoadedCatalog, loadCatalog } from './catalog/load.ts';
export { catalogAsMarkdown } from './catalog/markdown.ts';
export { catalogAsTypes } from './catalog/typescript.ts';
export type { EnrollApi, Machine } from './enroll/api.ts';
export type { Enrolment, EnrolmentState, EnrolmentWay } from './enroll/enrolment.ts';
export type { KnownMinion } from './enroll/import.ts';
export type { EnrolRequest, NewEnrolment } from './enroll/request.ts';
export type { ConfigValue, MinionConfig } from './enroll/user-data/minion-config.ts';
export type { UserDataFormat } from './enroll/user-data/user-data.ts';
export { BridgeError, type BridgeErrorCode, bridgeErrors } from './errors.ts';
export type { HttpDoors } from './http/doors.ts';
export type { BridgePlugin } from './http/plugin.ts';
export {
  type GroupDefinition,
  type PlanDefinition,
  plan,
  type StepDefinition,
  type StepSource,
  type StepSources,
  type TypedPlan,
  type UndoDefinition,
} from './plans/definition.ts';
export { describePlan, type PlanInfo, type StepInfo } from './plans/describe.ts';
export type { Groups } from './plans/groups.ts';
export { PlanBook } from './plans/plan-book.ts';
export type {
  PlanHandle,
  PlanOutcome,
  PlanRequest,
  PlanUpdate,
  StepKind,
  StepOutcome,
  StepProgress,
} from './plans/request.ts';
export type { BegunPlan } from './plans/rpc.ts';
export type {
  CommandCaller,
  CommandHandle,
  CommandOutcome,
  CommandRequest,
  CommandResult,
  CommandTarget,
  CommandUpdate,
} from './run/request.ts';
export type { BegunRun } from './run/rpc.ts';
export type { Transport } from './signals/destination.ts';
export type { HandleInfo, HandleRegistration } from './signals/handle.ts';
export type { OutboxEntry } from './signals/outbox-record.ts';
export type { HandleOwner, HandlesApi, OutboxApi, OutboxSelection } from './signals/signals-api.ts';
