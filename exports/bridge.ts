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
  type ArgumentSource,
  BridgeError,
  type BridgeErrorCode,
  type BridgeOptions,
  type CatalogFinding,
  type CommandCaller,
  type CommandDefinition,
  type CommandHandle,
  type CommandInfo,
  type CommandOutcome,
  type CommandRequest,
  type CommandResult,
  type CommandTarget,
  type CommandTypes,
  type CommandUpdate,
  defineCommand,
  definePlan,
  type EnrollApi,
  type Enrolment,
  type EnrolRequest,
  type GroupDefinition,
  type HandleInfo,
  type HandleRegistration,
  type HandlesApi,
  type JsonSchema,
  type KnownMinion,
  type MinionConfig,
  type NewEnrolment,
  type OutboxApi,
  type OutboxEntry,
  type PlanDefinition,
  type PlanHandle,
  type PlanInfo,
  type PlanOutcome,
  type PlanRequest,
  type PlanTypes,
  type PlanUpdate,
  type StepDefinition,
  type StepOutcome,
  type TypedCommand,
  type TypedPlan,
} from '#heat-bridge';
