export { type BusApi, type EventBus, openEvents, trimValues } from './event-bus.ts';
export { MissedEvents, missedBySlowReader } from './event-ring.ts';
export { tags } from './tags.ts';
