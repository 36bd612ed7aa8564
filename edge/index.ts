/** Sites that work without their centre, and their centre. See docs/architecture/edge.md. */

export { openCentre } from './centre-extension.ts';
export { edgeErrors } from './errors.ts';
export { type JoinOptions, type JoinReceipt, joinSite } from './identity/join.ts';
export type { IssuedTicket, SiteInfo } from './identity/site-registry.ts';
export type { OrderInfo, OrderReport, SiteOrderInfo } from './orders/centre-orders.ts';
export type { OrderWork } from './orders/order.ts';
export { openSite } from './site-extension.ts';
export type { SiteStatus } from './site-methods.ts';
