/** Sites that work without their centre, and their centre. See docs/architecture/edge.md. */

export { edgeErrors } from './errors.ts';
export { openCentre } from './centre-extension.ts';
export { type JoinOptions, type JoinReceipt, joinSite } from './identity/join.ts';
export type { IssuedTicket, SiteInfo } from './identity/site-registry.ts';
export { openSite } from './site-extension.ts';
export type { SiteStatus } from './site-methods.ts';
