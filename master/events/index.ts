export type { EventBus } from './event-bus.ts';
export { MissedEvents, missedBySlowReader } from './event-ring.ts';
export { tags } from './event-tags.ts';
export { createEvents, type Events } from './events.ts';
export { type BusApi, flat, tagTestOf } from './events-api.ts';
export { followAgain } from './follow-again.ts';
export { jidOf } from './job-of-event.ts';
export { trimValues } from './trim-values.ts';
