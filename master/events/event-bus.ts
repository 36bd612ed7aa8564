import { formatEventStamp, type WireMap } from '#minion-protocol';
import { BoundedQueue } from '#runtime';
import { MasterError, type MasterEvent } from '../api/index.ts';
import type { EventFigures } from '../metrics/index.ts';
import { type EventRing, MissedEvents } from './event-ring.ts';
import { eventLimits } from './limits.ts';
import { trimValues } from './trim-values.ts';

/** Options of a subscription. */
export interface SubscribeOptions {
  /** Returns whether the subscriber wants events with this tag. Default: all events. */
  readonly accepts?: (tag: string) => boolean;
  /**
   * Whether to omit events that minions emit or that other cluster members publish. Default: false.
   */
  readonly isOwnOnly?: boolean;
  /**
   * Maximum number of unread events. A subscriber with more unread events is dropped. Default:
   * 10,000.
   */
  readonly capacity?: number;
  /** Signal that ends the subscription. */
  readonly signal?: AbortSignal;
}

export interface EventBusOptions {
  /** `max_event_size` in bytes. 0 means no limit. */
  readonly maxEventBytes: number;
  /** Returns the current time. Default: the system clock. */
  readonly now?: () => Date;
  /** Storage for recent events. Default: events are not stored. */
  readonly ring?: Pick<EventRing, 'keep' | 'keepOther'> | undefined;
  /** Sends an event to the other members of the cluster. Default: the master has no cluster. */
  readonly sendToMembers?: ((event: MasterEvent) => void) | undefined;
}

/** Source of an event. `reaction`: the master, which called a function on behalf of a reaction. */
type EventOrigin = 'master' | 'minion' | 'reaction';

interface Reader {
  readonly isOwnOnly: boolean;
  readonly accepts: (tag: string) => boolean;
  readonly queue: BoundedQueue<MasterEvent>;
}

/**
 * Publishes events to subscribers. Delivery is not guaranteed, so use the store for data that must
 * not be lost. Each subscriber has its own bounded queue. A slow subscriber is dropped without
 * affecting the bus or other subscribers.
 */
export class EventBus {
  readonly #readers = new Set<Reader>();
  readonly #options: EventBusOptions;
  readonly #ofReactions = new WeakSet<MasterEvent>();
  readonly #owners = new WeakMap<MasterEvent, string>();
  #ofMaster = 0;
  #ofMinions = 0;
  #dropped = 0;

  constructor(options: EventBusOptions) {
    this.#options = options;
  }

  /**
   * Publishes an event. Values that exceed `max_event_size` are replaced by `VALUE_TRIMMED`.
   * @param origin - source of the event: the master itself, a minion, or the master on behalf of a
   * reaction. Default: the master itself
   * @param owner - who has caused an event that the master fires, for example a site. Reactions to
   * the event count for this owner. Default: the master
   */
  fire(tag: string, data: WireMap, origin: EventOrigin = 'master', owner?: string): void {
    if (origin === 'minion') this.#ofMinions += 1;
    else this.#ofMaster += 1;
    let event: MasterEvent | undefined;
    if (this.#options.ring !== undefined || this.#options.sendToMembers !== undefined)
      event = this.#make(tag, data, origin, owner);
    if (event !== undefined) this.#options.sendToMembers?.(event);
    for (const { isOwnOnly, accepts, queue } of this.#readers) {
      if ((origin === 'minion' && isOwnOnly) || !accepts(tag)) continue;
      event ??= this.#make(tag, data, origin, owner);
      queue.push(event);
    }
  }

  /**
   * Publishes an event that another cluster member has published. Subscribers with `isOwnOnly` do
   * not receive it. They can receive it only on the member that published it first.
   * @param idThere - id of the event at the other member, or `undefined` if that member stores no
   * events
   */
  repeat(tag: string, data: WireMap, idThere: string | undefined): void {
    const kept =
      idThere === undefined ? undefined : this.#options.ring?.keepOther(idThere, tag, data);
    const event: MasterEvent = kept === undefined ? { tag, data } : { tag, data, id: kept.id };
    const missed =
      kept?.missedAfter === undefined
        ? undefined
        : new MissedEvents(kept.missedAfter, this.#date().getTime());
    for (const { isOwnOnly, accepts, queue } of this.#readers) {
      if (isOwnOnly) continue;
      if (missed !== undefined) queue.push(missed);
      if (accepts(tag)) queue.push(event);
    }
  }

  #date(): Date {
    return this.#options.now?.() ?? new Date();
  }

  /**
   * Whether the master fired this event on behalf of a reaction. The event itself does not contain
   * this, because subscribers receive the event.
   */
  isOfReaction(event: MasterEvent): boolean {
    return this.#ofReactions.has(event);
  }

  /**
   * Returns who has caused an event that the master fired, or `undefined` for the master. The event
   * itself does not contain this.
   */
  ownerOf(event: MasterEvent): string | undefined {
    return this.#owners.get(event);
  }

  /** Creates the event object. All subscribers share it. */
  #make(tag: string, given: WireMap, origin: EventOrigin, owner: string | undefined): MasterEvent {
    const stamped = { ...given, _stamp: formatEventStamp(this.#date()) };
    const data = trimValues(stamped, this.#options.maxEventBytes);
    const event: MasterEvent =
      this.#options.ring === undefined
        ? { tag, data }
        : { tag, data, id: this.#options.ring.keep(tag, data) };
    if (origin === 'reaction') this.#ofReactions.add(event);
    if (owner !== undefined) this.#owners.set(event, owner);
    return event;
  }

  /**
   * Subscribes to the events that are published after this call. The iteration ends when the signal
   * is aborted or the bus is closed.
   * @throws MasterError ERR_READER_DROPPED from the iteration if the subscriber is too slow
   */
  subscribe(options: SubscribeOptions = {}): AsyncIterableIterator<MasterEvent> {
    return this.#listen(options);
  }

  /** Subscribes to events like {@link subscribe}, but returns batches of all pending events. */
  batches(options: SubscribeOptions = {}): AsyncIterable<readonly MasterEvent[]> {
    return this.#listen(options).batches();
  }

  #listen(options: SubscribeOptions): BoundedQueue<MasterEvent> {
    const capacity = options.capacity ?? 10_000;
    const { readerEvents } = eventLimits;
    const end = (): void => {
      options.signal?.removeEventListener('abort', close);
      this.#readers.delete(reader);
    };
    const queue = new BoundedQueue<MasterEvent>(readerEvents, () => this.#drop(capacity), end, {
      perOwner: capacity,
    });
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
    const message = `the reader was dropped: more than ${capacity} events were pending; subscribe again`;
    return new MasterError('ERR_READER_DROPPED', message);
  }

  /** Returns statistics since the start: the number of published events and of subscribers. */
  figures(): EventFigures {
    return {
      ofMaster: this.#ofMaster,
      ofMinions: this.#ofMinions,
      readers: this.#readers.size,
      dropped: this.#dropped,
    };
  }

  /** Returns the number of pending events of the slowest subscriber. */
  deepestQueue(): number {
    let deepest = 0;
    for (const { queue } of this.#readers) deepest = Math.max(deepest, queue.length);
    return deepest;
  }

  /** Closes the bus. Each subscriber still receives its pending events. */
  close(): void {
    for (const reader of this.#readers) reader.queue.close();
  }
}
