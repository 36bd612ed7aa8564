import { defineLimits } from '#runtime';

/** Limits of the event bus. */
export const eventLimits = defineLimits('events', {
  readerEvents: {
    unit: 'events that wait for one subscriber',
    owner: 'caller',
    perOwner: 10_000,
    effect: 'The subscription ends.',
    code: 'ERR_READER_DROPPED',
  },
});
