export { loadCandidatePolicy } from './candidate-policy.ts';
export type { ClusterOptions } from './cluster-options.ts';
export {
  ConfigError,
  type ConfigWarning,
  configErrors,
  type OptionOrigin,
  placeOf,
  withoutPlace,
} from './config-error.ts';
export { withoutCredentials } from './credentials.ts';
export type { EventExport, FileExport, NatsExport, WebhookExport } from './event-export.ts';
export {
  engineNames,
  engineOption,
  enginePrefixes,
  forwardingEngines,
  type Listening,
  reactorPatterns,
} from './event-listeners.ts';
export { type EventRingOptions, eventRingSize } from './event-ring-options.ts';
export {
  type ExtPillarEntry,
  type GitPillarEntry,
  pillarAddressProblem,
  readExtPillar,
  type UnservedPillarEntry,
  unservedExtPillars,
  unservedReason,
} from './ext-pillar.ts';
export {
  type BackendSettings,
  type FileBackendSettings,
  type JwtBackendSettings,
  readBackend,
  servedEauths,
} from './external-auth.ts';
export type { GitAccess, GitLimits } from './git-options.ts';
export {
  type GitfsRemote,
  type GitPillarRemote,
  gitfsRemotesOf,
  gitPillarRemotesOf,
} from './git-remotes.ts';
export type { ApiAcl, HttpApiOptions } from './http-api-options.ts';
export { leftOutOptions } from './left-out-options.ts';
export { configLimits } from './limits.ts';
export { listOptions, type OptionInForce } from './list-options.ts';
export {
  type ConfigChanges,
  type FixedConfig,
  LiveConfig,
  type ReloadableConfig,
} from './live-config.ts';
export { type CheckedConfig, checkMasterConfig, loadMasterConfig, servedOptions } from './load.ts';
export type { LogLevel } from './log-level.ts';
export { type MergeStrategy, mergeStrategies } from './merge-strategies.ts';
export { type OptionStatus, optionStatuses } from './option-compatibility.ts';
export {
  type AclOptions,
  type EauthOptions,
  type HashType,
  type Limits,
  type MasterConfig,
  type MasterOptions,
  perProcessOptions,
  storeDirectory,
} from './options.ts';
export { optionsHeading, optionsPage } from './options-page.ts';
export { configJsonSchema } from './options-schema.ts';
export { type OverlaidConfig, overlayConfig } from './overlay.ts';
export { type PlainOptions, resolvePlainOptions } from './plain-options.ts';
export { dialectOf, rulesOf } from './policy-rules.ts';
export { formWorld, policySyntax, type SignalRule } from './policy-schema.ts';
export type {
  CallValue,
  MappedValue,
  Reaction,
  ReactionAction,
  ReactionOptions,
  RunAction,
} from './reaction.ts';
export { neededValues, pathOf, schemaGuarantees } from './reaction-guarantees.ts';
export { globsOf, isMapped, isReaction, reaction, serviceOf } from './reaction-values.ts';
export { type ReactorEntry, readReactorEntries } from './reactor-entries.ts';
export { type ReadOptions, readOptions } from './read-config.ts';
export { expandGlob, yamlLines } from './read-files.ts';
export type { RelayOptions } from './relay-options.ts';
export { resolveMasterConfig } from './resolve.ts';
export { saltValues, valuesForMinions, withheldOptions } from './salt-values.ts';
export {
  type ClockTime,
  readSchedule,
  type ScheduleEntry,
  type ScheduleRange,
  type ScheduleTrigger,
} from './schedule.ts';
export { type SdbProfile, sdbDrivers, warnOfSdbProfile } from './sdb-profiles.ts';
export { type ServedTransport, servedTransports } from './served-transports.ts';
export {
  isSetting,
  isSettings,
  moduleNames,
  originOfPath,
  pairsOf,
  placeWithin,
  type Setting,
  type Settings,
  sectionOf,
  textsOf,
} from './settings.ts';
export { planSignals, type SignalPlan } from './signal-plan.ts';
export { centreUrl, type SiteOptions, type SitesOptions, siteName } from './site-options.ts';
export { type LoadedTenants, loadSaltConfig, loadTenants, type SaltConfig } from './tenants.ts';
export type { SslOptions, TransportName } from './transport-options.ts';
export { findUnserved, type UnservedOption } from './unserved-options.ts';
