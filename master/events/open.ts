/** The bus of a master, and what keeps its events. */
import type { Logger } from 'pino';
import type { Closers } from '../closers.ts';
import { eventRingSize } from '../config/event-ring-options.ts';
import type { MasterConfig } from '../config/options.ts';
import type { Foundations } from '../foundations.ts';
import { EventBus } from './bus.ts';
import { type BusApi, createBusApi } from './bus-api.ts';
import { EventRing } from './event-ring.ts';

/** What they are opened with. */
export interface EventParts {
  readonly config: MasterConfig;
  readonly foundations: Pick<Foundations, 'store'>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly log: Logger;
}

/** @throws StoreError */
export async function openEvents(
  { config, foundations: { store }, now, log }: EventParts,
  closers: Closers,
): Promise<{ readonly bus: EventBus; readonly events: BusApi }> {
  const size = eventRingSize(config);
  const parts = { store, now, log: log.child({ component: 'events' }) };
  // Before the bus, so that it is closed after it.
  const ring =
    size === undefined
      ? undefined
      : closers.add(await EventRing.open({ ...parts, size }), (it) => it.close());
  const bus = closers.add(
    new EventBus({ maxEventBytes: config.maxEventSize, now: () => new Date(now()), ring }),
    (it) => it.close(),
  );
  return { bus, events: createBusApi(bus, ring) };
}
