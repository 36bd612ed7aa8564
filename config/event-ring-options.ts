/** `saltbridge: event_ring:`, a buffer of the latest events for readers that reconnect. */

import type { Static } from 'typebox';
import type { HttpApiOptions } from './http-api-options.ts';
import { bytes, defaultsOf, integer, mebibyte, section } from './schema.ts';

export const eventRing = section(
  {
    entries: integer(0, 10_000_000, {
      default: 10_000,
      description: 'Number of events to store. 0: none.',
    }),
    bytes: bytes(65_536, 2 ** 40, {
      default: 32 * mebibyte,
      description: 'Size of all stored events, packed.',
    }),
  },
  { expected: 'a map with any of entries (0 stores no events), bytes (65536 or more)' },
);

/** Capacity of the event ring: a number of events and a size in bytes. Both limits apply. */
export type EventRingOptions = Static<typeof eventRing>;

/** Returns the capacity of the event ring, or `undefined` if it stores no events. */
export function eventRingSize(config: {
  readonly eventRing: EventRingOptions | null;
  readonly api: HttpApiOptions | null;
  readonly restCherrypy: HttpApiOptions | null;
}): EventRingOptions | undefined {
  // Only readers over HTTP reconnect and continue.
  const isServed = (config.api ?? config.restCherrypy)?.port !== undefined;
  const size = config.eventRing ?? (isServed ? defaultsOf(eventRing) : undefined);
  return size === undefined || size.entries === 0 ? undefined : size;
}
