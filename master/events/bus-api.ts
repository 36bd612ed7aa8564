/** Events as the interface gives them: see ../api.ts. */
import { compileGlob } from '../../minion-protocol/index.ts';
import type { EventsApi, EventsRequest } from '../api.ts';
import type { EventBus, MasterEvent, SubscribeOptions } from './bus.ts';
import { type EventRing, MissedEvents } from './event-ring.ts';

/** The bus as the interface has it, and as it is read for many. */
export interface BusApi extends Pick<EventsApi, 'subscribe' | 'fire'> {
  /** As `subscribe`, all events that wait at once. */
  batches(request?: EventsRequest, signal?: AbortSignal): AsyncIterable<readonly MasterEvent[]>;
}

/** @param ring what keeps events; `undefined`: nothing does */
export function createBusApi(bus: EventBus, ring?: EventRing): BusApi {
  const batches: BusApi['batches'] = (request = {}, signal) => {
    const options = optionsOf(request, signal);
    // Before anything of the past is read: between both nothing is missing.
    const live = bus.batches(options);
    if (request.after === undefined) return live;
    const past = ring?.after(request.after) ?? missed(request.after);
    return followed(past, live, options);
  };
  return {
    batches,
    subscribe: (request = {}, signal) =>
      request.after === undefined
        ? bus.subscribe(optionsOf(request, signal))
        : flat(batches(request, signal)),
    fire: async (tag, data) => bus.fire(tag, data),
  };
}

/** What each of some patterns means. */
function optionsOf({ match }: EventsRequest, signal: AbortSignal | undefined): SubscribeOptions {
  const globs = match === undefined ? [] : [match].flat().map((glob) => compileGlob(glob));
  const accepts = (tag: string): boolean => globs.some((glob) => glob(tag));
  return {
    ...(match === undefined ? {} : { accepts }),
    ...(signal === undefined ? {} : { signal }),
  };
}

/** Where no event is kept. */
async function* missed(after: string): AsyncGenerator<readonly MasterEvent[], void, void> {
  yield [new MissedEvents(after, Date.now())];
}

async function* followed(
  past: AsyncIterable<readonly MasterEvent[]>,
  live: AsyncIterable<readonly MasterEvent[]>,
  { accepts = () => true, signal }: SubscribeOptions,
): AsyncGenerator<readonly MasterEvent[], void, void> {
  for await (const events of past) {
    if (signal?.aborted) break;
    const meant = events.filter((it) => it instanceof MissedEvents || accepts(it.tag));
    if (meant.length > 0) yield meant;
  }
  yield* live;
}

async function* flat<T>(batches: AsyncIterable<readonly T[]>): AsyncGenerator<T, void, void> {
  for await (const batch of batches) yield* batch;
}
