import { eventRingSize } from '#config';
import { isWireMap } from '#minion-protocol';
import type { ModuleDeps } from '../context/index.ts';
import { EventBus } from './event-bus.ts';
import { EventExporter } from './event-export.ts';
import { EventRing } from './event-ring.ts';
import { createBusApi } from './events-api.ts';

export type EventDeps = ModuleDeps;

/**
 * Creates the event bus of a master, with its storage and its exports.
 * @throws StoreError
 */
export async function createEvents({ config, context }: EventDeps) {
  const { ownStore: store, cluster, now, closers } = context;
  const size = eventRingSize(config.fixed);
  const parts = { store, now, log: context.log.child({ component: 'events' }) };
  // The exporter is created before the bus, so that it is closed after the bus.
  const ring =
    size === undefined
      ? undefined
      : closers.add(await EventRing.open({ ...parts, size, member: cluster?.member }), (it) =>
          it.close(),
        );
  const bus = closers.add(
    new EventBus({
      maxEventBytes: config.fixed.maxEventSize,
      now: () => new Date(now()),
      ring,
      sendToMembers: cluster && ((event) => cluster.send('event', { ...event })),
    }),
    (it) => it.close(),
  );
  cluster?.onMessage('event', ({ tag, data, id }) => {
    if (typeof tag !== 'string' || !isWireMap(data)) return;
    bus.repeat(tag, data, typeof id === 'string' ? id : undefined);
  });
  const { eventExport: exports, exportBytes: maxBytes } = config.fixed;
  if (exports.length > 0) {
    const { counters } = context;
    const onDropped = (events: number): void => counters.count('export-dropped', events);
    const options = { ...parts, exports, maxBytes, bus, onDropped };
    closers.add(await EventExporter.open(options), (it) => it.close());
  }
  return { bus, api: createBusApi(bus, ring) };
}

/** Event bus of a master, with the methods of its `events` interface. */
export type Events = Awaited<ReturnType<typeof createEvents>>;
