/**
 * The latest events, kept in the store, so that who reads them can go on where they stopped: also
 * after a restart. They are told at once and kept in groups a moment later; where a crash took
 * some, readers are told that some are missing.
 */

import type { Logger } from 'pino';
import Type from 'typebox';
import type { EventRingOptions } from '#config';
import { formatEventStamp, localField, unpackLocal, type WireMap } from '#minion-protocol';
import { defineRow, type Key, type Store } from '#store';
import type { MasterEvent } from '../api/index.ts';
import { createRun, type EventPlace, formatEventId, memberMark, parseEventId } from './event-id.ts';

export interface EventRingDeps {
  readonly store: Store;
  readonly size: EventRingOptions;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly log: Logger;
  /** The name of this member of a cluster. Default: there is none. */
  readonly member?: string | undefined;
  /** Names this run of the master. Default: by chance. */
  readonly run?: string;
}

interface Taken extends EventPlace {
  /** Events before this one were lost. */
  readonly isAfterLoss: boolean;
  /** How many this process had taken with it; 0: an earlier one took it. */
  readonly order: number;
}

interface Held extends Taken {
  /** In the stream of the store. */
  readonly sequence: number;
  readonly bytes: number;
}

interface Waiting extends Taken {
  readonly packed: Uint8Array;
}

/** An event of another member that was taken. */
interface Repeated {
  readonly id: string;
  /** The id before it, where events of that member between both were not heard. */
  readonly missedAfter?: string;
}

/** Up to where a reader has read, by an id. */
interface ReadUpTo {
  /** Sequences in the stream, by members. */
  readonly sequences: ReadonlyMap<string, number>;
  /** The same, of members that the id does not name. */
  readonly others: number;
  /** Whether nothing behind it is missing. */
  readonly isWhole: boolean;
}

/** Told to one reader, where events may be missing. */
const eventsMissedTag = 'saltbridge/events/missed';

const stream = 'events';
/** Is there when all of a run was kept. */
const completeKey: Key = ['event-ring', 'complete'];

/** How long events wait for others before they are written. */
const groupMs = 50;
const pageSize = 256;

/** Some events may be missing here: fired by nobody, told to one reader. */
export class MissedEvents implements MasterEvent {
  readonly tag: string = eventsMissedTag;
  readonly data: WireMap;

  /** @param after the id that was to be followed */
  constructor(after: string, now: number) {
    this.data = { after, _stamp: formatEventStamp(new Date(now)) };
  }
}

/** What a reader is told last that was ended because it reads too slowly. */
export function missedBySlowReader(now: number = Date.now()): MasterEvent {
  const data = { reason: 'the reader is too slow', _stamp: formatEventStamp(new Date(now)) };
  return { tag: eventsMissedTag, data };
}

export class EventRing {
  readonly #parts: EventRingDeps;
  readonly #run: string;
  /** What is in the store, the oldest first. */
  readonly #held: Held[];
  /** The latest event of each member, by its mark. */
  readonly #latest: Map<string, EventPlace>;
  #heldBytes: number;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  /** Events that this process has taken, and those of them that it fired. */
  #taken = 0;
  #last = 0;
  #isAfterLoss: boolean;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #isClosed = false;

  private constructor(
    parts: EventRingDeps,
    held: Held[],
    latest: readonly EventPlace[],
    isComplete: boolean,
  ) {
    this.#parts = parts;
    this.#run = parts.run ?? createRun(parts.member);
    this.#held = held;
    this.#latest = new Map(latest.map((place) => [memberMark(place), place]));
    this.#heldBytes = held.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#isAfterLoss = held.length > 0 && !isComplete;
  }

  /** @throws StoreError */
  static async open(parts: EventRingDeps): Promise<EventRing> {
    const { store } = parts;
    const held: Held[] = [];
    let latest: readonly EventPlace[] = [];
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
    // From here on it is not, until this run was closed.
    await store.write([{ op: 'delete', key: completeKey }]);
    return new EventRing(parts, held, latest, isComplete);
  }

  /** Takes an event, which is written a moment later. @returns its id */
  keep(tag: string, data: WireMap): string {
    this.#last += 1;
    const isAfterLoss = this.#isAfterLoss;
    if (!this.#isClosed) this.#isAfterLoss = false;
    return this.#take({ run: this.#run, number: this.#last }, isAfterLoss, tag, data);
  }

  /**
   * Takes an event of another member.
   * @param id - that it has there
   * @returns `undefined`: that is no id
   */
  keepOther(id: string, tag: string, data: WireMap): Repeated | undefined {
    const [place] = parseEventId(id);
    if (place === undefined) return undefined;
    const before = this.#latest.get(memberMark(place));
    const isNext = place.number === (before?.run === place.run ? before.number + 1 : 1);
    // Of a member that was never heard, nothing before it was promised.
    const hasMissed = before !== undefined && !isNext;
    const missedAfter = hasMissed ? this.#idOf(before) : undefined;
    const own = this.#take(place, hasMissed, tag, data);
    return missedAfter === undefined ? { id: own } : { id: own, missedAfter };
  }

  /** The id of a reader that has read all until now; `undefined`: there was nothing. */
  get position(): string | undefined {
    const places = [...this.#latest.values()];
    return places.length === 0 ? undefined : formatEventId(places);
  }

  /** The id at this member of an event that is its latest. */
  #idOf(place: EventPlace): string {
    return formatEventId([place, ...this.#othersThan(place)]);
  }

  #othersThan(place: EventPlace): readonly EventPlace[] {
    const mark = memberMark(place);
    if (this.#latest.size === 1 && this.#latest.has(mark)) return [];
    return [...this.#latest.values()].filter((it) => memberMark(it) !== mark);
  }

  #take(place: EventPlace, isAfterLoss: boolean, tag: string, data: WireMap): string {
    this.#latest.set(memberMark(place), place);
    const id = this.#idOf(place);
    // Nobody reads any more.
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
    // Nothing is written any more, or far too slowly.
    if (this.#waitingBytes > this.#parts.size.bytes) this.#lose();
    this.#timer ??= setTimeout(() => void this.flush(), groupMs).unref();
    return id;
  }

  /** All that was fired until now is in the store, or lost; never fails. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  /**
   * The events after one, up to those taken when it is called; first of all, and wherever some are
   * missing, a {@link MissedEvents}. An id that is not known any more is followed by all that there is.
   */
  after(id: string): AsyncGenerator<readonly MasterEvent[], void, void> {
    return this.#after(id, this.#taken);
  }

  /**
   * Says of events to come which of them a reader has read at another member, of which this one has
   * not heard yet. @returns `undefined`: there are none
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
    const last = this.#held.findLast((it) => it.order <= order)?.sequence ?? 0;
    const missed = new MissedEvents(id, now());
    const { sequences, others, isWhole } = this.#readUpTo(parseEventId(id));
    if (!isWhole) yield [missed];
    let isMarked = !isWhole;
    const from = Math.min(others, ...sequences.values());
    let expected = this.#held.find(({ sequence }) => sequence > from)?.sequence;
    while (expected !== undefined && expected <= last) {
      const events: MasterEvent[] = [];
      const page = await this.#page(expected);
      for (const { sequence, isAfterLoss, event, ...place } of page) {
        // Whoever asked hears it from the bus.
        if (sequence > last) break;
        const isTrimmed = sequence !== expected;
        expected = sequence + 1;
        const isRead = sequence <= (sequences.get(memberMark(place)) ?? others);
        // It was trimmed meanwhile, or cannot be read.
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

  /** Writes what waits, and that nothing is missing. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.flush();
    if (this.#isAfterLoss) return;
    try {
      await this.#parts.store.write([{ op: 'put', key: completeKey, value: new Uint8Array() }]);
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'end of the events was not kept');
    }
  }

  /** Up to where the reader of an event has read. */
  #readUpTo(places: readonly EventPlace[]): ReadUpTo {
    const end = this.#held.at(-1)?.sequence ?? 0;
    if (places.length === 0) return { sequences: new Map(), others: end, isWhole: false };
    const found = places.map((place) => ({ mark: memberMark(place), ...this.#upTo(place) }));
    return {
      sequences: new Map(found.map(({ mark, sequence }) => [mark, sequence])),
      // What a member fired that the reader never heard of, since the first of those places.
      others: Math.min(end, ...found.map(({ sequence }) => sequence)),
      isWhole: found.every(({ isWhole }) => isWhole),
    };
  }

  /** The same, of one member. */
  #upTo(place: EventPlace): { readonly sequence: number; readonly isWhole: boolean } {
    const { run, number } = place;
    const mark = memberMark(place);
    const held = this.#held;
    const isOfRun = (it: EventPlace): boolean => it.run === run;
    const last = held.findLast((it) => isOfRun(it) && it.number <= number);
    const latest = this.#latest.get(mark);
    const isLatest = latest !== undefined && isOfRun(latest) && latest.number === number;
    // Nothing of it is left, and nothing came after it.
    if (last === undefined && isLatest)
      return { sequence: Number.POSITIVE_INFINITY, isWhole: true };
    // Of earlier runs of that member all was read.
    const first = last === undefined ? held.find(isOfRun) : undefined;
    const sequence = last?.sequence ?? (first?.sequence ?? 1) - 1;
    if (last?.number === number) return { sequence, isWhole: true };
    const next = held.find((it) => it.sequence > sequence && memberMark(it) === mark);
    if (next !== undefined)
      return { sequence, isWhole: isOfRun(next) && next.number === number + 1 };
    // Another member's is still to be heard here.
    return { sequence, isWhole: latest !== undefined && isOfRun(latest) && run !== this.#run };
  }

  /** Events from a record of the stream on. */
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
      this.#parts.log.warn({ err: error, events: waiting.length }, 'events were not kept');
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

  /** Some at once: each time costs a write. */
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
      // What it leaves goes the next time.
      this.#parts.log.warn({ err: error }, 'old events were not deleted');
    }
  }

  #lose(): void {
    this.#parts.log.warn({ events: this.#waiting.length }, 'events were not kept');
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#isAfterLoss = true;
  }
}

/** Records of the stream. */
const eventRow = defineRow({
  name: 'event',
  schema: Type.Object({
    run: Type.String(),
    number: Type.Number(),
    /** Absent: false. */
    isAfterLoss: Type.Optional(Type.Boolean()),
    tag: Type.String(),
    data: Type.Unsafe<WireMap>(Type.Object({})),
    /** The rest of its id. Absent: empty. */
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

interface Kept extends EventPlace, Pick<MasterEvent, 'tag' | 'data'> {
  readonly isAfterLoss: boolean;
  readonly others: string;
}

/** `undefined`: the record is damaged. Readers are told that one is missing. */
function unpack(sequence: number, value: Uint8Array): Kept | undefined {
  try {
    const row = eventRow.decode({ key: [stream, String(sequence)], value });
    const { others = '', isAfterLoss = false, ...event } = row;
    return { ...event, others, isAfterLoss };
  } catch {
    return undefined;
  }
}
