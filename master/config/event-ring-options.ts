/** `saltbridge: event_ring:` */
import type { EventRingOptions } from '../events/event-ring.ts';
import { integer, type OptionKind } from './option-kinds.ts';
import type { MasterConfig } from './options.ts';
import { readSection, type SectionTable } from './section-kind.ts';

const table: SectionTable<EventRingOptions> = {
  entries: { name: 'entries', kind: integer(0, 10_000_000) },
  bytes: { name: 'bytes', kind: integer(65_536, 2 ** 40) },
};

const defaults: EventRingOptions = { entries: 10_000, bytes: 32 * 1_048_576 };

/** A map; what is not in it has its default. */
export const eventRing: OptionKind<EventRingOptions> = {
  expected: 'a map with any of entries (0: none are kept), bytes (65536 or more)',
  isPath: false,
  parse: (value) => {
    const section = readSection(table, value);
    return section && Object.freeze({ ...defaults, ...section });
  },
};

/** How much is kept of the events; `undefined`: nothing. */
export function eventRingSize(
  config: Pick<MasterConfig, 'eventRing' | 'api' | 'restCherrypy'>,
): EventRingOptions | undefined {
  // Who reads events over HTTP is who loses a connection.
  const isServed = (config.api ?? config.restCherrypy)?.port !== undefined;
  const size = config.eventRing ?? (isServed ? defaults : undefined);
  return size === undefined || size.entries === 0 ? undefined : size;
}
