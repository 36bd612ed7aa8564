/**
 * The latest events, kept in the store, so that who reads them can go on where they stopped: also
 * after a restart. They are told at once and kept in groups a moment later; where a crash took
 * some, readers are told that some are missing.
 */

import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import {
  formatEventStamp,
  isWireMap,
  packLocal,
  unpackLocal,
  type WireMap,
} from '../../minion-protocol/index.ts';
import type { Key, Store } from '../../store/index.ts';
import type { MasterEvent } from '../api/index.ts';
import type { EventRingOptions } from '../config/index.ts';

export interface EventRingDeps {
  readonly store: Store;
  readonly size: EventRingOptions;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly log: Logger;
  /** Names this run of the master; default: random. */
  readonly run?: string;
}

/** Where an event is in the ring: its id is `<run>-<number>`. */
interface Place {
  /** One run of the master: numbers begin anew with each. */
  readonly run: string;
  readonly number: number;
}

interface Held extends Place {
  /** In the stream of the store. */
  readonly sequence: number;
  readonly bytes: number;
  /** Events before this one were lost. */
  readonly isAfterLoss: boolean;
}

interface Waiting extends Place {
  readonly packed: Uint8Array;
  readonly isAfterLoss: boolean;
}

/** Told to one reader, where events may be missing. */
const eventsMissedTag = 'saltbridge/events/missed';

const stream = 'events';
/** Is there when all of a run was kept. */
const completeKey: Key = ['event-ring', 'complete'];
const idForm = /^([0-9a-f]{8,16})-([1-9]\d{0,14})$/;

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
  #heldBytes: number;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #last = 0;
  #isAfterLoss: boolean;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #isClosed = false;

  private constructor(parts: EventRingDeps, held: Held[], isComplete: boolean) {
    this.#parts = parts;
    this.#run = parts.run ?? randomBytes(6).toString('hex');
    this.#held = held;
    this.#heldBytes = held.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#isAfterLoss = held.length > 0 && !isComplete;
  }

  /** @throws StoreError */
  static async open(parts: EventRingDeps): Promise<EventRing> {
    const { store } = parts;
    const held: Held[] = [];
    for (let after = 0; ; ) {
      const records = await store.stream(stream).read({ after, limit: pageSize });
      for (const { sequence, value } of records) {
        const found = unpack(value);
        if (found !== undefined) held.push({ ...found, sequence, bytes: value.byteLength });
      }
      const last = records.at(-1);
      if (last === undefined) break;
      after = last.sequence;
    }
    const isComplete = (await store.get(completeKey)) !== undefined;
    // From here on it is not, until this run was closed.
    await store.write([{ op: 'delete', key: completeKey }]);
    return new EventRing(parts, held, isComplete);
  }

  /** Takes an event, which is written a moment later. @returns its id */
  keep(tag: string, data: WireMap): string {
    this.#last += 1;
    const place = { run: this.#run, number: this.#last };
    const id = `${place.run}-${place.number}`;
    // Nobody reads any more.
    if (this.#isClosed) return id;
    const isAfterLoss = this.#isAfterLoss;
    this.#isAfterLoss = false;
    const packed = packLocal([place.run, place.number, isAfterLoss, tag, packLocal(data)]);
    this.#waiting.push({ ...place, packed, isAfterLoss });
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
   * The events after one, up to those fired now; first of all, and wherever some are missing, a
   * {@link MissedEvents}. An id that is not known any more is followed by all that there is.
   */
  async *after(id: string): AsyncGenerator<readonly MasterEvent[], void, void> {
    const { now } = this.#parts;
    const last = this.#last;
    await this.flush();
    const missed = new MissedEvents(id, now());
    const { index, isWhole } = this.#indexAfter(id);
    if (!isWhole) yield [missed];
    let isMarked = !isWhole;
    let expected = this.#held[index]?.sequence;
    while (expected !== undefined) {
      const events: MasterEvent[] = [];
      const page = await this.#page(expected);
      for (const { run, number, sequence, isAfterLoss, event } of page) {
        // Whoever asked hears it from the bus.
        if (run === this.#run && number > last) break;
        // It was trimmed meanwhile, or cannot be read.
        const isGap = isAfterLoss || sequence !== expected;
        if (isGap && !isMarked) events.push(missed);
        isMarked = false;
        expected = sequence + 1;
        events.push(event);
      }
      if (events.length > 0) yield events;
      const isAllOld = page.every(({ run, number }) => run !== this.#run || number <= last);
      if (page.length === 0 || !isAllOld) break;
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

  /** Where the events after an id begin, and whether none of them is missing there. */
  #indexAfter(id: string): { readonly index: number; readonly isWhole: boolean } {
    const [, run = '', digits = ''] = idForm.exec(id) ?? [];
    const number = Number(digits);
    const held = this.#held;
    if (run === '') return { index: held.length, isWhole: false };
    const after = held.findIndex((it) => it.run === run && it.number > number);
    if (after !== -1) {
      const isNext = held[after]?.number === number + 1;
      const before = held[after - 1];
      return { index: after, isWhole: isNext || (before?.run === run && before.number === number) };
    }
    const latest = held.findLastIndex((it) => it.run === run);
    const isOfNow = run === this.#run && number <= this.#last;
    if (latest !== -1) return { index: latest + 1, isWhole: run !== this.#run || isOfNow };
    // Nothing of that run is left.
    if (isOfNow && number === this.#last) return { index: held.length, isWhole: true };
    return { index: 0, isWhole: false };
  }

  /** Events from a record of the stream on. */
  async #page(from: number): Promise<(Held & { readonly event: MasterEvent })[]> {
    const records = await this.#parts.store
      .stream(stream)
      .read({ after: from - 1, limit: pageSize });
    return records.flatMap(({ sequence, value }) => {
      const found = unpack(value);
      if (found === undefined) return [];
      const { tag, data, ...place } = found;
      const event = { tag, data, id: `${place.run}-${place.number}` };
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

function unpack(
  value: Uint8Array,
): (Place & MasterEvent & { readonly isAfterLoss: boolean }) | undefined {
  try {
    const parts = unpackLocal(value);
    const [run, number, isAfterLoss, tag, packed] = Array.isArray(parts) ? parts : [];
    if (typeof run !== 'string' || typeof number !== 'number' || typeof tag !== 'string') {
      return undefined;
    }
    const data = packed instanceof Uint8Array ? unpackLocal(packed) : null;
    if (!isWireMap(data)) return undefined;
    return { run, number, isAfterLoss: isAfterLoss === true, tag, data };
  } catch {
    // Readers are told that one is missing.
    return undefined;
  }
}
