import { eventRingSize, type LiveConfig } from '#config';
import { formatEventStamp, isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { BoundedQueue } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import {
  type EventsRequest,
  type InProcessApi,
  MasterError,
  type MasterEvent,
} from '../api/index.ts';
import type { MasterContext } from '../context/index.ts';
import type { EventFigures } from '../metrics/index.ts';
import { EventExporter } from './event-export.ts';
import { EventRing, MissedEvents } from './event-ring.ts';

// Salt's event tags [WIRE 14.2], and ours, which begin with `saltbridge/`.

export const tags = {
  auth: 'salt/auth',
  key: 'salt/key',
  rotation: 'key',
  jobNew: (jid: string): string => `salt/job/${jid}/new`,
  jobPublish: (jid: string): string => `salt/job/${jid}/publish`,
  jobReturn: (jid: string, minionId: string): string => `salt/job/${jid}/ret/${minionId}`,
  stateError: (jid: string, minionId: string, fun: string): string =>
    `salt/job/${jid}/sub/${minionId}/error/${fun}`,
  presencePresent: 'salt/presence/present',
  presenceChange: 'salt/presence/change',
  /** A signal that no rule permits: told once a burst. */
  signalDenied: (minionId: string): string => `saltbridge/denied/${minionId}`,
  /** Ours: what a reaction did not do. */
  reaction: (kind: 'dropped' | 'denied'): string => `saltbridge/reaction/${kind}`,
  resourcesRefreshed: (minionId: string): string => `resource/refresh/${minionId}`,
  dataRefreshed: (minionId: string): string => `minion/refresh/${minionId}`,
  /** Ours: the disk of the store was found full; there is room again. */
  storeFull: 'saltbridge/store/full',
  storeRoom: 'saltbridge/store/room',
  /** Ours: the audit log finds no room; it finds some again. */
  auditFull: 'saltbridge/audit/full',
  auditRoom: 'saltbridge/audit/room',
} as const;

// `max_event_size` [salt/utils/dicttrim.py].

const trimmed = 'VALUE_TRIMMED';

/**
 * The same map if it is small enough; else a copy in which the largest top-level values are
 * replaced by the text `VALUE_TRIMMED` until it fits. Sizes are estimates of the packed form.
 */
export function trimValues(data: WireMap, maxBytes: number): WireMap {
  const sizes = Object.entries(data).map(([key, value]) => ({ key, size: sizeOf(value) }));
  let total = sizes.reduce((sum, { size }) => sum + size, 0);
  if (maxBytes === 0 || total <= maxBytes) return data;
  const result: WireMap = { ...data };
  for (const { key, size } of sizes.sort((left, right) => right.size - left.size)) {
    if (total <= maxBytes) break;
    result[key] = trimmed;
    total -= size - trimmed.length;
  }
  return result;
}

function sizeOf(value: WireValue): number {
  if (typeof value === 'string') return value.length + 1;
  if (value instanceof Uint8Array) return value.byteLength + 1;
  if (value === null || typeof value !== 'object') return 5;
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + sizeOf(item), 3);
  if (value instanceof Map) {
    let sum = 3;
    for (const [key, item] of value) sum += sizeOf(key) + sizeOf(item);
    return sum;
  }
  return Object.entries(value).reduce<number>(
    (sum, [key, item]) => sum + key.length + sizeOf(item),
    3,
  );
}

/** How a reader subscribes. */
export interface SubscribeOptions {
  /** Only events whose tag this accepts. Default: all. */
  readonly accepts?: (tag: string) => boolean;
  /** Only events that the master fires itself. Default: those of minions too. */
  readonly isOwnOnly?: boolean;
  /** Events that may wait unread before the reader is dropped. Default 10,000. */
  readonly capacity?: number;
  /** Ends the subscription. */
  readonly signal?: AbortSignal;
}

interface Reader {
  readonly isOwnOnly: boolean;
  readonly accepts: (tag: string) => boolean;
  readonly queue: BoundedQueue<MasterEvent>;
}

/**
 * Tells what happened, to whoever listens. It only tells: nothing that must survive depends on
 * it. Readers have a bounded queue each; a slow one is dropped, never the bus or another reader.
 */
export class EventBus {
  readonly #readers = new Set<Reader>();
  readonly #maxEventBytes: number;
  readonly #now: () => Date;
  readonly #ring: Pick<EventRing, 'keep' | 'keepOther'> | undefined;
  readonly #tellMembers: ((event: MasterEvent) => void) | undefined;
  #ofMaster = 0;
  #ofMinions = 0;
  #dropped = 0;

  /** @param options `maxEventBytes`: `max_event_size`, 0 for no limit; `ring`: keeps events */
  constructor(options: {
    readonly maxEventBytes: number;
    readonly now?: () => Date;
    readonly ring?: Pick<EventRing, 'keep' | 'keepOther'> | undefined;
    /** Tells the other members of a cluster. Default: there are none. */
    readonly tellMembers?: ((event: MasterEvent) => void) | undefined;
  }) {
    this.#ring = options.ring;
    this.#tellMembers = options.tellMembers;
    this.#maxEventBytes = options.maxEventBytes;
    this.#now = options.now ?? (() => new Date());
  }

  /**
   * Fires an event. Values too big for `max_event_size` are replaced by `VALUE_TRIMMED`.
   * @param origin whether a minion emitted it. Default: the master itself
   */
  fire(tag: string, data: WireMap, origin: 'master' | 'minion' = 'master'): void {
    if (origin === 'master') this.#ofMaster += 1;
    else this.#ofMinions += 1;
    let event: MasterEvent | undefined;
    if (this.#ring !== undefined || this.#tellMembers !== undefined) event = this.#make(tag, data);
    if (event !== undefined) this.#tellMembers?.(event);
    for (const { isOwnOnly, accepts, queue } of this.#readers) {
      if ((origin === 'minion' && isOwnOnly) || !accepts(tag)) continue;
      event ??= this.#make(tag, data);
      queue.push(event);
    }
  }

  /**
   * Tells readers what another member of the cluster has fired; not those of what is this master's
   * own, which act on it at that member.
   * @param idThere - `undefined`: that member keeps no events
   */
  repeat(tag: string, data: WireMap, idThere: string | undefined): void {
    const kept = idThere === undefined ? undefined : this.#ring?.keepOther(idThere, tag, data);
    const event: MasterEvent = kept === undefined ? { tag, data } : { tag, data, id: kept.id };
    const missed =
      kept?.missedAfter === undefined
        ? undefined
        : new MissedEvents(kept.missedAfter, this.#now().getTime());
    for (const { isOwnOnly, accepts, queue } of this.#readers) {
      if (isOwnOnly) continue;
      if (missed !== undefined) queue.push(missed);
      if (accepts(tag)) queue.push(event);
    }
  }

  /** For all who read it. */
  #make(tag: string, given: WireMap): MasterEvent {
    const stamped = { ...given, _stamp: formatEventStamp(this.#now()) };
    const data = trimValues(stamped, this.#maxEventBytes);
    return this.#ring === undefined ? { tag, data } : { tag, data, id: this.#ring.keep(tag, data) };
  }

  /**
   * Events from the moment of this call on. Ends with the signal or the bus.
   * @throws MasterError ERR_READER_DROPPED from the iteration, when the reader was too slow
   */
  subscribe(options: SubscribeOptions = {}): AsyncIterableIterator<MasterEvent> {
    return this.#listen(options);
  }

  /** The same, all that wait at once. */
  batches(options: SubscribeOptions = {}): AsyncIterable<readonly MasterEvent[]> {
    return this.#listen(options).batches();
  }

  #listen(options: SubscribeOptions): BoundedQueue<MasterEvent> {
    const capacity = options.capacity ?? 10_000;
    const end = (): void => {
      options.signal?.removeEventListener('abort', close);
      this.#readers.delete(reader);
    };
    const queue = new BoundedQueue<MasterEvent>(capacity, () => this.#drop(capacity), end);
    const close = (): void => queue.close();
    const { accepts = () => true, isOwnOnly = false } = options;
    const reader: Reader = { accepts, isOwnOnly, queue };
    this.#readers.add(reader);
    options.signal?.addEventListener('abort', close, { once: true });
    if (options.signal?.aborted) close();
    return queue;
  }

  #drop(capacity: number): MasterError {
    this.#dropped += 1;
    const message = `the reader left more than ${capacity} events waiting and was dropped`;
    return new MasterError('ERR_READER_DROPPED', message);
  }

  /** What was fired since the start, and who reads. */
  figures(): EventFigures {
    return {
      ofMaster: this.#ofMaster,
      ofMinions: this.#ofMinions,
      readers: this.#readers.size,
      dropped: this.#dropped,
    };
  }

  /** Events of the reader that has most of them waiting. */
  deepestQueue(): number {
    let deepest = 0;
    for (const { queue } of this.#readers) deepest = Math.max(deepest, queue.length);
    return deepest;
  }

  /** Ends every subscription after what is queued for it. */
  close(): void {
    for (const reader of this.#readers) reader.queue.close();
  }
}

// The interface `events`.

/** The bus as the interface has it, and as it is read for many. */
export interface BusApi extends Pick<InProcessApi['events'], 'subscribe' | 'fire'> {
  /** What a reader names as `after` that has read all until now; `undefined`: nothing is kept. */
  position(): string | undefined;
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

interface FollowedOptions extends SubscribeOptions {
  /** Which of the events to come the reader has read already. Default: none. */
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
    // protection: events-heard-late
    const meant = events.filter((it) => !isSeen(it));
    if (meant.length > 0) yield meant;
  }
}

/** The items of batches, one by one. */
export async function* flat<T>(
  batches: AsyncIterable<readonly T[]>,
): AsyncGenerator<T, void, void> {
  for await (const batch of batches) yield* batch;
}

// Opening.

export interface EventDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
}

/** Events of a master: the bus, and the interface to it. */
export interface Events {
  readonly bus: EventBus;
  readonly api: BusApi;
}

/** @throws StoreError */
export async function createEvents({ config, context }: EventDeps): Promise<Events> {
  const { ownStore: store, cluster, now, closers } = context;
  const size = eventRingSize(config.fixed);
  const parts = { store, now, log: context.log.child({ component: 'events' }) };
  // Before the bus, so that it is closed after it.
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
      tellMembers: cluster && ((event) => cluster.send('event', { ...event })),
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
