export {
  type BusApi,
  createEvents,
  type EventBus,
  type Events,
  flat,
  tags,
  trimValues,
} from './event-bus.ts';
export { MissedEvents, missedBySlowReader } from './event-ring.ts';
export { jidOf } from './job-of-event.ts';
