export { type BusApi, type EventBus, flat, openEvents, trimValues } from './event-bus.ts';
export { MissedEvents, missedBySlowReader } from './event-ring.ts';
export { tags } from './tags.ts';
