/**
 * Sites, which are masters that continue to work without their centre, and the centre itself. See
 * docs/architecture/edge.md.
 */

export type { KeyClaim } from './bundles/key-claims.ts';
export type {
  ProposedRelease,
  ReleaseState,
} from './bundles/release-methods.ts';
export type { SiteProgram } from './bundles/site-program.ts';
export {
  createSigningKey,
  decodeRoleKey,
  encodeRoleKey,
  keyIdOf,
  type RoleKey,
  type SigningKey,
} from './bundles/tuf-keys.ts';
export { createRoot, type RoleKeys, readRoot, signTargets } from './bundles/tuf-metadata.ts';
export type { OnlineKeys } from './bundles/tuf-repository.ts';
export { currentBundle, revertBundle, withBundle } from './bundles/with-bundle.ts';
export { openCentre } from './centre-extension.ts';
export { edgeErrors } from './errors.ts';
export type { InputsOfSites } from './facts/centre-inputs.ts';
export { describeBasis } from './facts/facts-target.ts';
export { type JoinOptions, type JoinReceipt, joinSite } from './identity/join.ts';
export type { SiteDetails } from './identity/site-methods.ts';
export type { IssuedTicket, SiteInfo } from './identity/site-registry.ts';
export type { OrderInfo, OrderReport, SiteOrderInfo } from './orders/centre-orders.ts';
export type { OrderWork } from './orders/order.ts';
export type { StatementInfo } from './rehoming/centre-rehoming.ts';
export {
  type ImportedSite,
  maxImportedSites,
  parseSiteList,
  type SiteList,
} from './rehoming/site-list.ts';
export {
  cosignStatement,
  maxStatementDays,
  type NextCentre,
  parseNextCentre,
  readStatement,
  type Statement,
  writeStatement,
} from './rehoming/statement.ts';
export type { SiteSecretsState } from './secrets/centre-secrets.ts';
export { openSite } from './site-extension.ts';
export type { SiteStatus } from './site-methods.ts';
