/**
 * Named commands and plans, enrolment and signals, for orchestration services. Other exports are
 * for extensions of the bridge in other directories.
 */

export type {
  BridgeExtension,
  BridgeExtensionModule,
} from './bridge-extension.ts';
export { catalogPage } from './catalog/catalog-page.ts';
export type { CatalogEntryKind } from './catalog/entry-kind.ts';
export { loadCatalog } from './catalog/load-catalog.ts';
export { Catalog } from './commands/command-catalog.ts';
export {
  type CommandDefinition,
  catalogError,
  checkCatalogEntry,
  isPlainMap,
  type JsonSchema,
  keywordForm,
} from './commands/command-definition.ts';
export type { CommandInfo } from './commands/command-info.ts';
export type {
  CommandHandle,
  CommandOutcome,
  CommandRequest,
  CommandResult,
  CommandUpdate,
} from './commands/command-request.ts';
export type { RunStarted } from './commands/command-rpc.ts';
export { jsonDigest } from './commands/idempotency-keys.ts';
export {
  compileParameters,
  type Parameters,
  type ParameterValue,
} from './commands/parameters.ts';
export * as states from './commands/states/index.ts';
export { findTextProblem } from './commands/text-checks.ts';
export { ComposedBridge } from './composed-bridge.ts';
export type {
  BridgeOptions,
  CommandsOf,
  CommandTypes,
  CoreBridge,
  PlansOf,
  PlanTypes,
} from './core-bridge.ts';
export { checkSections } from './enabled-extensions.ts';
export type {
  Enrolment,
  EnrolRequest,
  KnownMinion,
  MinionConfig,
  NewEnrolment,
} from './enroll/enrolment.ts';
export type { EnrolmentModule } from './enroll/open-enrolment.ts';
export { BridgeError, type BridgeErrorCode } from './errors.ts';
export { familyOf, figureOf } from './figures.ts';
export { groupTexts } from './group-texts.ts';
export {
  createCallerResolver,
  requireRight,
  resolveProject,
  tokenHolderOf,
} from './http/http-caller.ts';
export { addRegistrationRoutes } from './http/registration-routes.ts';
export { describeRoute, listOf, parseBody, parseForm } from './http/route-schema.ts';
export { httpProblemOf } from './http-problems.ts';
export { isLive } from './live-enrolment.ts';
export { parseKeystoneOptions } from './openstack/keystone-options.ts';
export { requestToken } from './openstack/log-in.ts';
export { type DeliveryOutcome, redactSecrets } from './openstack/service-answer.ts';
export { publicServiceUrl } from './openstack/service-catalog.ts';
export { BridgeOptionsError, keyPath, parseSection, type SectionProblem } from './options.ts';
export { ownerNameOf } from './owner-name.ts';
export type { PlanDefinition } from './plans/plan-definition.ts';
export type { PlanInfo } from './plans/plan-info.ts';
export type { PlanOutcome, PlanUpdate } from './plans/plan-request.ts';
export type { PlanStarted } from './plans/plan-rpc.ts';
export {
  PendingRegistrations,
  type RegistrationChecks,
  type RegistrationsApi,
  registrationMethods,
} from './registrations.ts';
export { sectionProblems } from './section-problems.ts';
export type { CommandsService } from './services.ts';
export { bridgeServices } from './services.ts';
export { SharedNames } from './shared-names.ts';
export { quoteForShell } from './shell-text.ts';
export type { HandleRegistration } from './signals/handle-registration.ts';
export type { HandleInfo } from './signals/handles.ts';
export type { SignalsModule } from './signals/open-signals.ts';
export type { OutboxEntry } from './signals/outbox-entry.ts';
export { encodePath, getRequest, limitOf, textOfAnswer } from './transports/heat-requests.ts';
export type { Ask, ResultDelivery } from './transports/transport.ts';
export {
  deliverResult,
  maxResultBytes,
  parseResultDestination,
  type ResultDestination,
  secretsOf,
} from './transports/transports.ts';
export { messagesOf, zaqarClientId } from './transports/zaqar-delivery.ts';
