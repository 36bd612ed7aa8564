export { type BusApi, type EventBus, openEvents, tags, trimValues } from './event-bus.ts';
export { MissedEvents, missedBySlowReader } from './event-ring.ts';
