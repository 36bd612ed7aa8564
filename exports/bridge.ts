/**
 * `saltbridge/bridge`: the bridge for orchestration services, with named commands, plans, enrolment
 * and signals.
 *
 * @packageDocumentation
 */

export {
  type Bridge,
  createBridge,
  type LoadedCatalog,
  loadCatalog,
} from '#guests';
export {
  BridgeError,
  type BridgeErrorCode,
  type BridgeOptions,
  type CommandDefinition,
  type CommandHandle,
  type CommandInfo,
  type CommandOutcome,
  type CommandRequest,
  type CommandResult,
  type CommandTypes,
  type CommandUpdate,
  type Enrolment,
  type EnrolRequest,
  type HandleInfo,
  type HandleRegistration,
  type JsonSchema,
  type KnownMinion,
  type MinionConfig,
  type NewEnrolment,
  type OutboxEntry,
  type PlanDefinition,
  type PlanInfo,
  type PlanOutcome,
  type PlanTypes,
  type PlanUpdate,
} from '#heat-bridge';
export type { CatalogFinding } from '#heat-bridge/catalog/load-catalog.ts';
export {
  type ArgumentSource,
  defineCommand,
  type TypedCommand,
} from '#heat-bridge/commands/command-definition.ts';
export type { CommandCaller, CommandTarget } from '#heat-bridge/commands/command-request.ts';
export type { EnrollApi } from '#heat-bridge/enroll/enrolment-service.ts';
export {
  definePlan,
  type GroupDefinition,
  type StepDefinition,
  type TypedPlan,
} from '#heat-bridge/plans/plan-definition.ts';
export type { PlanHandle, PlanRequest, StepOutcome } from '#heat-bridge/plans/plan-request.ts';
export type { HandlesApi, OutboxApi } from '#heat-bridge/signals/signals-api.ts';
