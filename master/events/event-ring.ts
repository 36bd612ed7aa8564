/**
 * The event ring: stores the latest events, so that readers can continue where they stopped, even
 * after a restart. Events are published immediately and stored in groups shortly after. If events
 * are lost in a crash, readers receive a notice that events are missing.
 */

import type { Logger } from 'pino';
import Type from 'typebox';
import type { EventRingOptions } from '#config';
import { formatEventStamp, localField, unpackLocal, type WireMap } from '#minion-protocol';
import { unlimitedSteps, WorkBudget } from '#runtime';
import { defineRow, type Key, type Store } from '#store';
import type { MasterEvent } from '../api/index.ts';
import {
  createRun,
  type EventPosition,
  formatEventId,
  memberMark,
  parseEventId,
} from './event-id.ts';

export interface EventRingDeps {
  readonly store: Store;
  readonly size: EventRingOptions;
  /** Clock, in milliseconds since 1970. */
  readonly now: () => number;
  readonly log: Logger;
  /** Name of this cluster member. `undefined` outside a cluster. */
  readonly member?: string | undefined;
  /** Identifier of this run of the master. Default: random. */
  readonly run?: string;
}

interface Taken extends EventPosition {
  /** Whether events that preceded this one were lost. */
  readonly isAfterLoss: boolean;
  /**
   * Position among the events that this process has added. 0 if an earlier process added the event.
   */
  readonly order: number;
}

interface Held extends Taken {
  /** Sequence number in the stream of the store. */
  readonly sequence: number;
  readonly bytes: number;
}

interface Waiting extends Taken {
  readonly packed: Uint8Array;
}

/** Result of adding an event of another cluster member. */
interface Repeated {
  readonly id: string;
  /**
   * Id of the previous event from the same member. Present only if events between it and this event
   * are missing.
   */
  readonly missedAfter?: string;
}

/** Progress of a reader, derived from the id of the last event that it has read. */
interface ReadUpTo {
  /** Sequence number of the last record that the reader has read, by member. */
  readonly sequences: ReadonlyMap<string, number>;
  /**
   * Sequence number for all cluster members that are not in `sequences`. Records of these members
   * up to this number count as read.
   */
  readonly others: number;
  /** Whether all events after the reader's position are available. */
  readonly isWhole: boolean;
}

/**
 * State of a search among the stored events of one cluster member. It looks for the event after
 * which a reader continues. `place` is the position of the last event of this member that the
 * reader has read.
 */
interface Search {
  readonly place: EventPosition;
  /** Position of the latest event of the member. */
  readonly latest: EventPosition | undefined;
  /** Oldest stored event of the member. */
  oldest?: Held;
  /**
   * Oldest stored event of the run to which the position `place` belongs. A run is the time from
   * the start of a member's process to its end.
   */
  first?: Held;
  /**
   * Latest stored event that the reader has read. Only events of the run to which `place` belongs
   * are considered.
   */
  last?: Held;
  /**
   * Oldest stored event of the member that is later than `last`: the first that the reader has not
   * read.
   */
  afterLast?: Held | undefined;
}

/** Cost of examining one stored event in a search, in steps of a {@link WorkBudget}. */
const recordSteps = 20;

/**
 * Passes one stored event to a search for the position of a reader. Must be called for all stored
 * events of the searched cluster member, the oldest first.
 */
function note(it: Held, search: Search): void {
  search.oldest ??= it;
  if (it.run === search.place.run) {
    search.first ??= it;
    if (it.number <= search.place.number) {
      search.last = it;
      search.afterLast = undefined;
      return;
    }
  }
  search.afterLast ??= it;
}

/** Tag of the event that warns a reader that it may have missed events. */
const eventsMissedTag = 'saltbridge/events/missed';

const stream = 'events';
/** Key of a row that exists only if all events of the master's previous run were stored. */
const completeKey: Key = ['event-ring', 'complete'];

/** Delay before new events are written together as a group, in milliseconds. */
const groupMs = 50;
const pageSize = 256;

/**
 * Notice that events may be missing at this point. It is sent to a single reader and not published.
 */
export class MissedEvents implements MasterEvent {
  readonly tag: string = eventsMissedTag;
  readonly data: WireMap;

  /** @param after - id of the last event that the reader had read */
  constructor(after: string, now: number) {
    this.data = { after, _stamp: formatEventStamp(new Date(now)) };
  }
}

/** Returns the last notice to a reader that is dropped because it is too slow. */
export function missedBySlowReader(now: number = Date.now()): MasterEvent {
  const data = { reason: 'the reader is too slow', _stamp: formatEventStamp(new Date(now)) };
  return { tag: eventsMissedTag, data };
}

export class EventRing {
  readonly #parts: EventRingDeps;
  readonly #run: string;
  /** Records of the stored events, oldest first. */
  readonly #held: Held[];
  /**
   * Position of the latest event of each cluster member. The keys are results of
   * {@link memberMark}.
   */
  readonly #latest: Map<string, EventPosition>;
  #heldBytes: number;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  /** Number of events that this process has added to the ring. */
  #taken = 0;
  #last = 0;
  #isAfterLoss: boolean;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #isClosed = false;

  private constructor(
    parts: EventRingDeps,
    held: Held[],
    latest: readonly EventPosition[],
    isComplete: boolean,
  ) {
    this.#parts = parts;
    this.#run = parts.run ?? createRun(parts.member);
    this.#held = held;
    this.#latest = new Map(latest.map((place) => [memberMark(place), place]));
    this.#heldBytes = held.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#isAfterLoss = held.length > 0 && !isComplete;
  }

  /**
   * Opens the ring and reads the stored events.
   * @throws StoreError
   */
  static async open(parts: EventRingDeps): Promise<EventRing> {
    const { store } = parts;
    const held: Held[] = [];
    let latest: readonly EventPosition[] = [];
    for (let after = 0; ; ) {
      const records = await store.stream(stream).read({ after, limit: pageSize });
      for (const { sequence, value } of records) {
        const found = unpack(sequence, value);
        if (found === undefined) continue;
        const { tag: _tag, data: _data, others, ...place } = found;
        held.push({ ...place, order: 0, sequence, bytes: value.byteLength });
        latest = [place, ...parseEventId(others)];
      }
      const last = records.at(-1);
      if (last === undefined) break;
      after = last.sequence;
    }
    const isComplete = (await store.get(completeKey)) !== undefined;
    // The row is deleted while the master runs. It is written again when the ring is closed without
    // losses.
    await store.write([{ op: 'delete', key: completeKey }]);
    return new EventRing(parts, held, latest, isComplete);
  }

  /**
   * Adds an event. It is written to the store shortly after.
   * @returns the id of the event
   */
  keep(tag: string, data: WireMap): string {
    this.#last += 1;
    const isAfterLoss = this.#isAfterLoss;
    if (!this.#isClosed) this.#isAfterLoss = false;
    return this.#take({ run: this.#run, number: this.#last }, isAfterLoss, tag, data);
  }

  /**
   * Adds an event that another member has published.
   * @param id - id of the event at the other member
   * @returns `undefined` if the id is invalid
   */
  keepOther(id: string, tag: string, data: WireMap): Repeated | undefined {
    const [place] = parseEventId(id);
    if (place === undefined) return undefined;
    const before = this.#latest.get(memberMark(place));
    const isNext = place.number === (before?.run === place.run ? before.number + 1 : 1);
    // If no event of the member was received before, there is no gap.
    const hasMissed = before !== undefined && !isNext;
    const missedAfter = hasMissed ? this.#idOf(before) : undefined;
    const own = this.#take(place, hasMissed, tag, data);
    return missedAfter === undefined ? { id: own } : { id: own, missedAfter };
  }

  /**
   * Id of the last event. A reader that has read all events can continue after this id. `undefined`
   * if there were no events.
   */
  get position(): string | undefined {
    const places = [...this.#latest.values()];
    return places.length === 0 ? undefined : formatEventId(places);
  }

  /**
   * Returns the id of the latest event of a cluster member, as readers of this master receive it.
   * The id contains the position of this event, and the position of the latest event of each other
   * member.
   */
  #idOf(place: EventPosition): string {
    return formatEventId([place, ...this.#othersThan(place)]);
  }

  #othersThan(place: EventPosition): readonly EventPosition[] {
    const mark = memberMark(place);
    if (this.#latest.size === 1 && this.#latest.has(mark)) return [];
    return [...this.#latest.values()].filter((it) => memberMark(it) !== mark);
  }

  #take(place: EventPosition, isAfterLoss: boolean, tag: string, data: WireMap): string {
    this.#latest.set(memberMark(place), place);
    const id = this.#idOf(place);
    // The ring is closed, so there are no readers and the event need not be stored.
    if (this.#isClosed) return id;
    this.#taken += 1;
    const { run, number } = place;
    const others = this.#othersThan(place);
    const packed = eventRow.encode({
      run,
      number,
      ...(isAfterLoss ? { isAfterLoss } : {}),
      tag,
      data,
      ...(others.length === 0 ? {} : { others: formatEventId(others) }),
    });
    this.#waiting.push({ run, number, packed, isAfterLoss, order: this.#taken });
    this.#waitingBytes += packed.byteLength;
    // The store rejects writes or is far too slow, so the waiting events are given up.
    if (this.#waitingBytes > this.#parts.size.bytes) this.#lose();
    this.#timer ??= setTimeout(() => void this.flush(), groupMs).unref();
    return id;
  }

  /**
   * Writes the waiting events. Resolves when all events so far are stored or lost. Never rejects.
   */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  /**
   * Yields the stored events that follow the event with this id and were added before this call. In
   * place of events that may be missing, yields {@link MissedEvents}. An id contains the run
   * (lifetime of a member's process) in which it was created. If this run is unknown, yields
   * {@link MissedEvents} and all stored events. If the id is invalid, yields only
   * {@link MissedEvents}.
   */
  after(id: string): AsyncGenerator<readonly MasterEvent[], void, void> {
    return this.#after(id, this.#taken);
  }

  /**
   * Returns a function that tests whether the reader has already read an event at another cluster
   * member. Such an event must not be sent to the reader again.
   * @param id - id of the last event that the reader has read
   * @returns `undefined` if this member has received all events that the reader has read
   */
  seenElsewhere(id: string): ((event: MasterEvent) => boolean) | undefined {
    const ahead = parseEventId(id).filter(({ run, number }) => {
      const latest = this.#latest.get(memberMark({ run }));
      return run !== this.#run && latest?.run === run && latest.number < number;
    });
    if (ahead.length === 0) return undefined;
    return (event) => {
      const [place] = parseEventId(event.id ?? '');
      return ahead.some(({ run, number }) => place?.run === run && place.number <= number);
    };
  }

  async *#after(id: string, order: number): AsyncGenerator<readonly MasterEvent[], void, void> {
    const { now } = this.#parts;
    await this.flush();
    const held = [...this.#held];
    const last = held.findLast((it) => it.order <= order)?.sequence ?? 0;
    const missed = new MissedEvents(id, now());
    const { sequences, others, isWhole } = await this.#readUpTo(parseEventId(id), held);
    if (!isWhole) yield [missed];
    let isMarked = !isWhole;
    const from = Math.min(others, ...sequences.values());
    let expected = held.find(({ sequence }) => sequence > from)?.sequence;
    while (expected !== undefined && expected <= last) {
      const events: MasterEvent[] = [];
      const page = await this.#page(expected);
      for (const { sequence, isAfterLoss, event, ...place } of page) {
        // Do not read events added later. The reader receives them from the bus.
        if (sequence > last) break;
        const isTrimmed = sequence !== expected;
        expected = sequence + 1;
        const isRead = sequence <= (sequences.get(memberMark(place)) ?? others);
        // Records between this record and the previous one were deleted or are damaged, or events
        // were lost.
        const isGap = isTrimmed || (isAfterLoss && !isRead);
        if (isGap && !isMarked) events.push(missed);
        isMarked = false;
        if (!isRead) events.push(event);
      }
      if (events.length > 0) yield events;
      if (page.length === 0) break;
    }
    if (this.#isAfterLoss && !isMarked) yield [missed];
  }

  /**
   * Writes the waiting events. If no event was lost, also stores a marker. Because of the marker,
   * the next run does not report missing events.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.flush();
    if (this.#isAfterLoss) return;
    try {
      await this.#parts.store.write([{ op: 'put', key: completeKey, value: new Uint8Array() }]);
    } catch (error) {
      this.#parts.log.warn(
        { err: error },
        'cannot record that all events were stored; after a restart, readers get a warning about missing events, although none are missing',
      );
    }
  }

  /**
   * Determines which events a reader has already read. The reader has sent the id of the last event
   * that it has read.
   * @param places - positions in this event id
   * @param held - records of the stored events, which must not change during the call
   */
  async #readUpTo(places: readonly EventPosition[], held: readonly Held[]): Promise<ReadUpTo> {
    const end = held.at(-1)?.sequence ?? 0;
    if (places.length === 0) return { sequences: new Map(), others: end, isWhole: false };
    const searches = new Map(
      places.map((place): [string, Search] => {
        const mark = memberMark(place);
        return [mark, { place, latest: this.#latest.get(mark) }];
      }),
    );
    const budget = new WorkBudget(unlimitedSteps);
    for (const it of held) {
      budget.spend('the search for the position of a reader', recordSteps);
      if (budget.isSliceOver) await budget.giveWay();
      const search = searches.get(memberMark(it));
      if (search !== undefined) note(it, search);
    }
    const found = Array.from(searches, ([mark, search]) => ({ mark, ...this.#upTo(search) }));
    return {
      sequences: new Map(found.map(({ mark, sequence }) => [mark, sequence])),
      // For a member that is not in the id, reading starts at the earliest position of the other
      // members.
      others: Math.min(end, ...found.map(({ sequence }) => sequence)),
      isWhole: found.every(({ isWhole }) => isWhole),
    };
  }

  /**
   * Returns the sequence number of the last stored event of one member that a reader has read.
   * `isWhole`: whether all events of this member after the reader's position are available. `place`
   * is this position.
   */
  #upTo({ place, latest, oldest, first, last, afterLast }: Search): {
    readonly sequence: number;
    readonly isWhole: boolean;
  } {
    const { run, number } = place;
    const isLatest = latest?.run === run && latest.number === number;
    // This is the position of the member's latest event. The record of this event was deleted, and
    // no newer event exists.
    if (last === undefined && isLatest)
      return { sequence: Number.POSITIVE_INFINITY, isWhole: true };
    // The reader has read all events of the member's earlier runs.
    const sequence = last?.sequence ?? (first?.sequence ?? 1) - 1;
    if (last?.number === number) return { sequence, isWhole: true };
    const next = last === undefined ? (first ?? oldest) : afterLast;
    if (next !== undefined)
      return { sequence, isWhole: next.run === run && next.number === number + 1 };
    // The event of another member may not have been received here yet.
    return { sequence, isWhole: latest?.run === run && run !== this.#run };
  }

  /** Returns a page of stored events, starting with the record that has this sequence number. */
  async #page(from: number): Promise<(Omit<Held, 'order'> & { readonly event: MasterEvent })[]> {
    const records = await this.#parts.store
      .stream(stream)
      .read({ after: from - 1, limit: pageSize });
    return records.flatMap(({ sequence, value }) => {
      const found = unpack(sequence, value);
      if (found === undefined) return [];
      const { tag, data, others, ...place } = found;
      const event = { tag, data, id: formatEventId([place, ...parseEventId(others)]) };
      return [{ ...place, sequence, bytes: value.byteLength, event }];
    });
  }

  async #write(): Promise<void> {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    this.#waitingBytes = 0;
    try {
      await this.#parts.store.write(
        waiting.map(({ packed: value }) => ({ op: 'append', stream, value })),
      );
    } catch (error) {
      this.#parts.log.warn(
        { err: error, events: waiting.length },
        'some events could not be written to the store, and are lost',
      );
      this.#isAfterLoss = true;
      return;
    }
    const after = this.#held.at(-1)?.sequence ?? 0;
    const [first] = await this.#parts.store.stream(stream).read({ after, limit: 1 });
    for (const [index, { packed, ...place }] of waiting.entries()) {
      const sequence = (first?.sequence ?? after + 1) + index;
      this.#held.push({ ...place, sequence, bytes: packed.byteLength });
      this.#heldBytes += packed.byteLength;
    }
    await this.#trim();
  }

  /**
   * If the ring exceeds a limit, deletes the oldest records until a sixteenth of each limit is
   * free. Deleting only as many records as necessary would cause a write to the store for every
   * further event.
   */
  async #trim(): Promise<void> {
    const { entries, bytes } = this.#parts.size;
    if (this.#held.length <= entries && this.#heldBytes <= bytes) return;
    const keep = Math.floor(entries - entries / 16);
    let gone = 0;
    let left = this.#heldBytes;
    while (this.#held.length - gone > keep || left > bytes - bytes / 16) {
      const oldest = this.#held[gone];
      if (oldest === undefined) break;
      left -= oldest.bytes;
      gone += 1;
    }
    const last = this.#held[gone - 1];
    this.#held.splice(0, gone);
    this.#heldBytes = left;
    if (last === undefined) return;
    try {
      await this.#parts.store.stream(stream).trim(last.sequence);
    } catch (error) {
      // The next deletion also deletes the records that remain now.
      this.#parts.log.warn(
        { err: error },
        'cannot delete old events; the deletion will be retried',
      );
    }
  }

  #lose(): void {
    this.#parts.log.warn(
      { events: this.#waiting.length },
      'too many events were waiting to be written; some are lost',
    );
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#isAfterLoss = true;
  }
}

/** Codec of the records in the event stream. */
const eventRow = defineRow({
  name: 'event',
  schema: Type.Object({
    run: Type.String(),
    number: Type.Number(),
    /** Whether events that preceded this one were lost. Default: false. */
    isAfterLoss: Type.Optional(Type.Boolean()),
    tag: Type.String(),
    data: Type.Unsafe<WireMap>(Type.Object({})),
    /** Positions of the other members' latest events, in the form of an event id. Default: none. */
    others: Type.Optional(Type.String()),
  }),
  packed: { data: localField },
  unversioned: (bytes) => {
    const parts = unpackLocal(bytes);
    const [run, number, isAfterLoss, tag, packed, others = ''] = Array.isArray(parts) ? parts : [];
    const data = packed instanceof Uint8Array ? unpackLocal(packed) : null;
    return { run, number, isAfterLoss, tag, data, others };
  },
});

interface Kept extends EventPosition, Pick<MasterEvent, 'tag' | 'data'> {
  readonly isAfterLoss: boolean;
  readonly others: string;
}

/**
 * Decodes a record. Returns `undefined` if it is damaged; readers then receive a notice of missing
 * events.
 */
function unpack(sequence: number, value: Uint8Array): Kept | undefined {
  try {
    const row = eventRow.decode({ key: [stream, String(sequence)], value });
    const { others = '', isAfterLoss = false, ...event } = row;
    return { ...event, others, isAfterLoss };
  } catch {
    return undefined;
  }
}
