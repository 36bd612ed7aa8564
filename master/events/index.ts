export {
  type BusApi,
  createEvents,
  type EventBus,
  type Events,
  flat,
  trimValues,
} from './event-bus.ts';
export { MissedEvents, missedBySlowReader } from './event-ring.ts';
export { tags } from './tags.ts';
