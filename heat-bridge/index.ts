/** Named commands, enrolment and signals for orchestration services. */

export type { DataSpaceDetails } from '#guests/data-spaces/data-api.ts';
export type { DataSpaceInfo } from '#guests/data-spaces/data-spaces.ts';
export type { DeploymentEnd } from '#guests/deployments/deployment-answer.ts';
export type { ServerStatus } from '#guests/deployments/server-worker.ts';
export type {
  CollectConfig,
  MetadataTransport,
  OwnerLogin,
  ServerLogin,
  StackInfo,
  StackRegistration,
  StackServer,
} from '#guests/deployments/stacks.ts';
export type {
  DeploymentInfo,
  StackDetails,
  StackOwner,
  StacksApi,
} from '#guests/deployments/stacks-api.ts';
export { loadAgentOptions } from '#guests/metadata-agent/agent-options.ts';
export { startMetadataAgent } from '#guests/metadata-agent/metadata-agent.ts';
export { startRelay } from '#guests/metadata-agent/relay.ts';
export {
  type CompiledTemplate,
  type CompileOptions,
  compileTemplate,
} from '#guests/templates/compile-template.ts';
export {
  type PreparedRoles,
  parsePreparedRoles,
  spaceOf,
} from '#guests/templates/prepared-roles.ts';
export { drawFlows } from '#guests/templates/template-picture.ts';
export { drawFlowsAsSvg } from '#guests/templates/template-svg.ts';
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
export { catalogAsMarkdown } from './catalog/catalog-docs.ts';
export { catalogAsTypes } from './catalog/catalog-types.ts';
export { type CatalogFinding, type LoadedCatalog, loadCatalog } from './catalog/load-catalog.ts';
export { checkBridgeOptions } from './check-options.ts';
export type { Parameters } from './commands/parameters.ts';
export { Catalog } from './commands/command-catalog.ts';
export {
  type ArgumentSource,
  type CommandDefinition,
  type ConcurrencyLimit,
  defineCommand,
  type JsonSchema,
  type TypedCommand,
} from './commands/command-definition.ts';
export { type CommandInfo, describeCommand } from './commands/command-info.ts';
export type {
  CommandCaller,
  CommandHandle,
  CommandOutcome,
  CommandRequest,
  CommandResult,
  CommandTarget,
  CommandUpdate,
} from './commands/command-request.ts';
export type { RunStarted } from './commands/command-rpc.ts';
export type {
  ConfigValue,
  Enrolment,
  EnrolmentState,
  EnrolmentWay,
  EnrolRequest,
  MinionConfig,
  NewEnrolment,
  UserDataFormat,
} from './enroll/enrolment.ts';
export type { EnrollApi, KnownMinion, Machine } from './enroll/enrolment-service.ts';
export { BridgeError, type BridgeErrorCode, bridgeErrors } from './errors.ts';
export type { BridgePlugin } from './http/bridge-plugin.ts';
export type { HttpServerContext } from './http/http-server-context.ts';
export { keyPath, type SectionProblem } from './options.ts';
export { PlanCatalog } from './plans/plan-catalog.ts';
export {
  definePlan,
  type GroupDefinition,
  type PlanDefinition,
  type StepDefinition,
  type StepSource,
  type StepSources,
  type TypedPlan,
  type UndoDefinition,
} from './plans/plan-definition.ts';
export type { Groups } from './plans/plan-groups.ts';
export { describePlan, type PlanInfo, type StepInfo } from './plans/plan-info.ts';
export type {
  PlanHandle,
  PlanOutcome,
  PlanRequest,
  PlanUpdate,
  StepKind,
  StepOutcome,
  StepProgress,
} from './plans/plan-request.ts';
export type { PlanStarted } from './plans/plan-rpc.ts';
export { groupTexts } from './signals/handle-groups.ts';
export type { HandleInfo, HandleRegistration } from './signals/handles.ts';
export type { OutboxEntry } from './signals/outbox-entry.ts';
export type { HandleOwner, HandlesApi, OutboxApi, OutboxSelection } from './signals/signals-api.ts';
export type { Transport } from './transports/transports.ts';
