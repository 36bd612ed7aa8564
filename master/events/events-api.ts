/** Implements the interface `events` of the master. */

import { userWork, WorkBudget, type WorkMeter } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import {
  type EventsRequest,
  type InProcessApi,
  limitOwnerOf,
  type MasterEvent,
} from '../api/index.ts';
import type { EventBus, SubscribeOptions } from './event-bus.ts';
import { type EventRing, MissedEvents } from './event-ring.ts';

/** Event methods of the master's interface. They include batches, for servers with many readers. */
export interface BusApi extends Pick<InProcessApi['events'], 'subscribe' | 'fire'> {
  /**
   * Returns the id of the latest event. A reader that has read all events can continue after this
   * id later. `undefined` if no events are stored.
   */
  position(): string | undefined;
  /** Subscribes like `subscribe`, but returns batches of all pending events. */
  batches(request?: EventsRequest, signal?: AbortSignal): AsyncIterable<readonly MasterEvent[]>;
}

/**
 * Creates the `events` interface of a master.
 * @param ring - storage of recent events, or `undefined` if events are not stored
 */
export function createBusApi(bus: EventBus, ring?: EventRing): BusApi {
  const batches: BusApi['batches'] = (request = {}, signal) => {
    const options = optionsOf(request, signal);
    // The subscription begins before stored events are read, so that no event between them is
    // missed.
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
    // Reactions to the event count for its user.
    fire: async (tag, data, by) => bus.fire(tag, data, 'master', limitOwnerOf(by)),
  };
}

/** Maximum number of patterns of one reader. {@link maxCharacters} limits their total length. */
const maxPatterns = 64;
const maxCharacters = 32_768;

/**
 * Returns the options of a subscription for a request of a reader.
 * @throws WorkLimitExceeded if the patterns of the request cause too much work
 */
function optionsOf({ match }: EventsRequest, signal: AbortSignal | undefined): SubscribeOptions {
  return {
    ...(match === undefined ? {} : { accepts: tagTestOf(match) }),
    ...(signal === undefined ? {} : { signal }),
  };
}

/**
 * Compiles the patterns of a reader to a function that tests whether a tag matches one of them.
 * @param meter - counter of the work of the function. Default: the work is not counted
 * @throws WorkLimitExceeded
 */
export function tagTestOf(
  match: NonNullable<EventsRequest['match']>,
  meter?: WorkMeter,
): (tag: string) => boolean {
  const patterns = [match].flat();
  const budget = new WorkBudget(userWork);
  const characters = patterns.reduce((sum, { length }) => sum + length, 0);
  if (patterns.length > maxPatterns) budget.refuse('match', maxPatterns, 'patterns');
  if (characters > maxCharacters) budget.refuse('match', maxCharacters, 'characters');
  const globs = [...new Set(patterns)].map((glob) => compileGlob(glob, meter));
  return (tag) => globs.some((glob) => glob(tag));
}

/**
 * Yields only a notice that events may be missing. Used if a reader wants to continue after a given
 * event, but the master does not store events.
 */
async function* missed(after: string): AsyncGenerator<readonly MasterEvent[], void, void> {
  yield [new MissedEvents(after, Date.now())];
}

interface FollowedOptions extends SubscribeOptions {
  /**
   * Returns whether the reader has already read an event at another member. Default: it has not.
   */
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
