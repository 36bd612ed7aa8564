/** The interface `events`. */

import { userWork, WorkBudget } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { EventsRequest, InProcessApi, MasterEvent } from '../api/index.ts';
import type { EventBus, SubscribeOptions } from './event-bus.ts';
import { type EventRing, MissedEvents } from './event-ring.ts';

/** Event part of the master's interface, with batches for servers with many readers. */
export interface BusApi extends Pick<InProcessApi['events'], 'subscribe' | 'fire'> {
  /**
   * Returns the `after` value of a reader that has read everything so far, or `undefined` if no
   * events are stored.
   */
  position(): string | undefined;
  /** Subscribes like `subscribe`, in batches of all pending events. */
  batches(request?: EventsRequest, signal?: AbortSignal): AsyncIterable<readonly MasterEvent[]>;
}

/**
 * Creates the `events` interface of a master.
 * @param ring storage of events; `undefined` if events are not stored
 */
export function createBusApi(bus: EventBus, ring?: EventRing): BusApi {
  const batches: BusApi['batches'] = (request = {}, signal) => {
    const options = optionsOf(request, signal);
    // Subscribes before it reads stored events, so that none is missed between them.
    const live = bus.batches(options);
    if (request.after === undefined) return live;
    const past = ring?.after(request.after) ?? missed(request.after);
    return followed(past, live, { ...options, isSeen: ring?.seenElsewhere(request.after) });
  };
  return {
    position: () => ring?.position,
    batches,
    subscribe: async (request = {}, signal) =>
      request.after === undefined
        ? bus.subscribe(optionsOf(request, signal))
        : flat(batches(request, signal)),
    fire: async (tag, data) => bus.fire(tag, data),
  };
}

/** Maximum number of patterns of one reader, and of their characters together. */
const maxPatterns = 64;
const maxCharacters = 32_768;

/**
 * Converts a request to subscription options. A tag must match at least one pattern.
 * @throws WorkLimitExceeded
 */
function optionsOf({ match }: EventsRequest, signal: AbortSignal | undefined): SubscribeOptions {
  const patterns = [match ?? []].flat();
  const budget = new WorkBudget(userWork);
  const characters = patterns.reduce((sum, { length }) => sum + length, 0);
  if (patterns.length > maxPatterns) budget.refuse('match', maxPatterns, 'patterns');
  if (characters > maxCharacters) budget.refuse('match', maxCharacters, 'characters');
  const globs = [...new Set(patterns)].map((glob) => compileGlob(glob));
  const accepts = (tag: string): boolean => globs.some((glob) => glob(tag));
  return {
    ...(match === undefined ? {} : { accepts }),
    ...(signal === undefined ? {} : { signal }),
  };
}

/** Returns the notice for a reader that wants to continue although no events are stored. */
async function* missed(after: string): AsyncGenerator<readonly MasterEvent[], void, void> {
  yield [new MissedEvents(after, Date.now())];
}

interface FollowedOptions extends SubscribeOptions {
  /** Returns whether the reader has already read an event. Default: never. */
  readonly isSeen?: ((event: MasterEvent) => boolean) | undefined;
}

async function* followed(
  past: AsyncIterable<readonly MasterEvent[]>,
  live: AsyncIterable<readonly MasterEvent[]>,
  { accepts = () => true, signal, isSeen }: FollowedOptions,
): AsyncGenerator<readonly MasterEvent[], void, void> {
  for await (const events of past) {
    if (signal?.aborted) break;
    const meant = events.filter((it) => it instanceof MissedEvents || accepts(it.tag));
    if (meant.length > 0) yield meant;
  }
  if (isSeen === undefined) {
    yield* live;
    return;
  }
  for await (const events of live) {
    const meant = events.filter((it) => !isSeen(it));
    if (meant.length > 0) yield meant;
  }
}

/** Yields the items of batches one by one. */
export async function* flat<T>(
  batches: AsyncIterable<readonly T[]>,
): AsyncGenerator<T, void, void> {
  for await (const batch of batches) yield* batch;
}
