/** `saltbridge/bridge`: named commands, enrolment and signals for orchestration services. */
export {
  type AnyCommands,
  type Bridge,
  type BridgeOptions,
  type CommandsOf,
  type CommandTypes,
  createBridge,
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
export { commandsAsMarkdown } from './catalog/markdown.ts';
export { commandsAsTypes } from './catalog/typescript.ts';
export type { EnrollApi, Machine } from './enroll/api.ts';
export type { Enrolment, EnrolmentState, EnrolmentWay } from './enroll/enrolment.ts';
export type { KnownMinion } from './enroll/import.ts';
export type { EnrolRequest, NewEnrolment } from './enroll/request.ts';
export type { ConfigValue, MinionConfig } from './enroll/user-data/minion-config.ts';
export type { UserDataFormat } from './enroll/user-data/user-data.ts';
export { BridgeError, type BridgeErrorCode, bridgeErrors } from './errors.ts';
export type { HttpDoors } from './http/doors.ts';
export type { BridgePlugin } from './http/plugin.ts';
export type {
  CommandCaller,
  CommandHandle,
  CommandOutcome,
  CommandRequest,
  CommandResult,
  CommandUpdate,
} from './run/request.ts';
export type { BegunRun } from './run/rpc.ts';
export type { Transport } from './signals/destination.ts';
export type { HandleInfo, HandleRegistration } from './signals/handle.ts';
export type { OutboxEntry } from './signals/outbox-record.ts';
export type { HandlesApi, OutboxApi, OutboxSelection } from './signals/signals-api.ts';
