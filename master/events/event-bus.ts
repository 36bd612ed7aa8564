import { formatEventStamp, type WireMap } from '#minion-protocol';
import { BoundedQueue } from '#runtime';
import { MasterError, type MasterEvent } from '../api/index.ts';
import type { EventFigures } from '../metrics/index.ts';
import { type EventRing, MissedEvents } from './event-ring.ts';
import { trimValues } from './trim-values.ts';

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

export interface EventBusOptions {
  /** `max_event_size`; 0: no limit. */
  readonly maxEventBytes: number;
  /** Default: the clock of the system. */
  readonly now?: () => Date;
  /** Stores events. Default: nothing does. */
  readonly ring?: Pick<EventRing, 'keep' | 'keepOther'> | undefined;
  /** Sends events to the other members of a cluster. Default: there are none. */
  readonly tellMembers?: ((event: MasterEvent) => void) | undefined;
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
  readonly #options: EventBusOptions;
  #ofMaster = 0;
  #ofMinions = 0;
  #dropped = 0;

  constructor(options: EventBusOptions) {
    this.#options = options;
  }

  /**
   * Fires an event. Values too big for `max_event_size` are replaced by `VALUE_TRIMMED`.
   * @param origin whether a minion emitted it. Default: the master itself
   */
  fire(tag: string, data: WireMap, origin: 'master' | 'minion' = 'master'): void {
    if (origin === 'master') this.#ofMaster += 1;
    else this.#ofMinions += 1;
    let event: MasterEvent | undefined;
    if (this.#options.ring !== undefined || this.#options.tellMembers !== undefined)
      event = this.#make(tag, data);
    if (event !== undefined) this.#options.tellMembers?.(event);
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

  /** For all who read it. */
  #make(tag: string, given: WireMap): MasterEvent {
    const stamped = { ...given, _stamp: formatEventStamp(this.#date()) };
    const data = trimValues(stamped, this.#options.maxEventBytes);
    return this.#options.ring === undefined
      ? { tag, data }
      : { tag, data, id: this.#options.ring.keep(tag, data) };
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
