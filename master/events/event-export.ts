/**
 * Events for other services: kept in the store, and sent from there to each receiver at least once.
 * Whoever fires an event waits for none of it.
 */

import type { Logger } from 'pino';
import Type from 'typebox';
import type { EventExport } from '#config';
import { localField, unpackLocal, type WireMap } from '#minion-protocol';
import { retryDelayMs, sleepUntilAborted } from '#runtime';
import { defineRow, type Store, type StreamConsumer } from '#store';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { MasterEvent } from '../api/index.ts';
import {
  type ExportedEvent,
  fileReceiver,
  type Receiver,
  webhookReceiver,
} from './export-receivers.ts';

/** What an export needs of the event bus. */
interface ExportedBus {
  batches(options: {
    readonly accepts: (tag: string) => boolean;
    readonly capacity: number;
    readonly signal: AbortSignal;
  }): AsyncIterable<readonly MasterEvent[]>;
  fire(tag: string, data: WireMap): void;
}

export interface EventExportDeps {
  readonly exports: readonly EventExport[];
  /** Most bytes that may wait. */
  readonly maxBytes: number;
  readonly store: Store;
  readonly bus: ExportedBus;
  readonly log: Logger;
  /** Counts events that were dropped. */
  readonly onDropped: (events: number) => void;
}

/** Events were dropped, because too many wait. */
const exportDroppedTag = 'saltbridge/export/dropped';

const stream = 'event-export';
const pageSize = 256;
/** Events and their bytes that are sent at once: at least one, however large. */
const batchSize = 100;
const batchBytes = 1_048_576;
/** Events of the bus that may wait to be written. */
const capacity = 50_000;
const retryDelays = { initialDelayMs: 1000, maxDelayMs: 60_000 };

interface Waiting {
  readonly sequence: number;
  readonly bytes: number;
}

/** One receiver, and how far it has got. */
interface Cursor {
  readonly name: string;
  readonly receiver: Receiver;
  readonly consumer: StreamConsumer;
  readonly accepts: (tag: string) => boolean;
  /** The last record that it needs no more. */
  done: number;
  wake: () => void;
}

export class EventExporter {
  readonly #deps: EventExportDeps;
  readonly #cursors: readonly Cursor[];
  readonly #end = new AbortController();
  /** In the store, the oldest first; from `#first` on. */
  #waiting: Waiting[] = [];
  #first = 0;
  #bytes = 0;
  /** The last record that was written. */
  #last = 0;
  /** Dropped since the backlog was last below its bound. */
  #isOver = false;
  #work: Promise<unknown> = Promise.resolve();

  private constructor(deps: EventExportDeps, receivers: readonly Receiver[]) {
    this.#deps = deps;
    this.#cursors = deps.exports.flatMap((it, index) => {
      const receiver = receivers[index];
      return receiver === undefined
        ? []
        : [
            {
              name: it.name,
              receiver,
              consumer: deps.store.stream(stream).consumer(it.name),
              accepts: acceptsOf(it),
              done: 0,
              wake: () => {},
            },
          ];
    });
  }

  /**
   * Begins to take events, and to send what was left of an earlier run.
   * @throws StoreError, SaltbridgeError ERR_PACKAGE_MISSING
   */
  static async open(deps: EventExportDeps): Promise<EventExporter> {
    const exporter = new EventExporter(deps, await Promise.all(deps.exports.map(createReceiver)));
    await exporter.#restore();
    const signal = exporter.#end.signal;
    exporter.#work = Promise.all([
      exporter.#take(signal),
      ...exporter.#cursors.map((cursor) => exporter.#deliver(cursor, signal)),
    ]);
    return exporter;
  }

  /** Bytes that wait in the store. */
  get waitingBytes(): number {
    return this.#bytes;
  }

  async close(): Promise<void> {
    this.#end.abort();
    for (const { wake } of this.#cursors) wake();
    await this.#work;
    await Promise.all(this.#cursors.map(({ receiver }) => receiver.close?.()));
  }

  async #restore(): Promise<void> {
    const { store } = this.#deps;
    for (let after = 0; ; ) {
      const records = await store.stream(stream).read({ after, limit: pageSize });
      for (const { sequence, value } of records) this.#note(sequence, value.byteLength);
      const last = records.at(-1);
      if (last === undefined) break;
      after = last.sequence;
    }
    this.#last = this.#waiting.at(-1)?.sequence ?? 0;
    for (const cursor of this.#cursors) {
      const [next] = await cursor.consumer.fetch(1);
      cursor.done = next === undefined ? this.#last : next.sequence - 1;
    }
    await this.#trim();
  }

  #note(sequence: number, bytes: number): void {
    this.#waiting.push({ sequence, bytes });
    this.#bytes += bytes;
  }

  /** Writes what is fired, in groups, while others go on. */
  async #take(signal: AbortSignal): Promise<void> {
    const { bus, log } = this.#deps;
    const accepts = (tag: string): boolean => this.#cursors.some((it) => it.accepts(tag));
    while (!signal.aborted) {
      let unwritten = 0;
      try {
        for await (const events of bus.batches({ accepts, capacity, signal })) {
          for (let from = 0; from < events.length; from += pageSize) {
            unwritten = events.length - from;
            await this.#write(events.slice(from, from + pageSize));
          }
          unwritten = 0;
        }
        return;
      } catch (err) {
        if (signal.aborted) return;
        // The store takes nothing, or is too slow for what is fired: all that waited are lost.
        log.error({ err }, 'events were not kept for export');
        if (unwritten > 0) this.#tellDropped(unwritten, 'the store took nothing');
        else this.#tellDropped(capacity, 'the store was too slow');
        await sleepUntilAborted(retryDelays.initialDelayMs, signal);
      }
    }
  }

  async #write(events: readonly MasterEvent[]): Promise<void> {
    const { store, maxBytes } = this.#deps;
    const values = events.map(({ tag, data }) => exportedRow.encode({ tag, data }));
    const last = this.#last;
    await store.write(values.map((value) => ({ op: 'append', stream, value })));
    // A store that was opened anew may have gone on at another number: it knows.
    const [first] = await store.stream(stream).read({ after: last, limit: 1 });
    const begin = first?.sequence ?? last + 1;
    for (const [index, { byteLength }] of values.entries()) this.#note(begin + index, byteLength);
    this.#last = begin + values.length - 1;
    await this.#bound(maxBytes);
    for (const { wake } of this.#cursors) wake();
  }

  /** Over the bound the oldest are dropped, whoever still waits for them. */
  async #bound(maxBytes: number): Promise<void> {
    if (this.#bytes <= maxBytes) {
      if (this.#bytes < maxBytes / 2) this.#isOver = false;
      return;
    }
    let dropped = 0;
    let [index, left] = [this.#first, this.#bytes];
    while (left > maxBytes) {
      left -= this.#waiting[index]?.bytes ?? left;
      index += 1;
      dropped += 1;
    }
    const upTo = this.#waiting[index - 1]?.sequence ?? 0;
    for (const cursor of this.#cursors) {
      if (cursor.done >= upTo) continue;
      cursor.done = upTo;
      await cursor.consumer.acknowledge(upTo);
    }
    await this.#trim();
    this.#tellDropped(dropped, `more than ${maxBytes} bytes wait`);
  }

  /** One event, however many are dropped until there is room again. */
  #tellDropped(events: number, reason: string): void {
    const { bus, log, onDropped } = this.#deps;
    onDropped(events);
    if (this.#isOver) return;
    this.#isOver = true;
    const waiting = this.#cursors.filter(({ done }) => done < this.#last).map(({ name }) => name);
    log.error({ events, reason, exports: waiting }, 'events for export were dropped');
    bus.fire(exportDroppedTag, { reason, exports: waiting });
  }

  /** Forgets what every receiver has. */
  async #trim(): Promise<void> {
    const upTo = Math.min(...this.#cursors.map(({ done }) => done));
    let isAny = false;
    for (; ; this.#first++) {
      const oldest = this.#waiting[this.#first];
      if (oldest === undefined || oldest.sequence > upTo) break;
      this.#bytes -= oldest.bytes;
      isAny = true;
    }
    if (this.#first > 1000 && this.#first > this.#waiting.length / 2) {
      this.#waiting = this.#waiting.slice(this.#first);
      this.#first = 0;
    }
    if (isAny) await this.#deps.store.stream(stream).trim(upTo);
  }

  /** How many events are sent to a receiver at once. @param done the last that it has */
  #batchAfter(done: number): number {
    const oldest = this.#waiting[this.#first]?.sequence ?? 0;
    const start = this.#first + Math.max(0, done + 1 - oldest);
    let [count, bytes] = [0, 0];
    for (const waiting of this.#waiting.slice(start, start + batchSize)) {
      bytes += waiting.bytes;
      if (count > 0 && bytes > batchBytes) break;
      count += 1;
    }
    return count;
  }

  /** Sends to one receiver, one batch after the other. */
  async #deliver(cursor: Cursor, signal: AbortSignal): Promise<void> {
    const { log } = this.#deps;
    const { name, receiver, consumer, accepts } = cursor;
    let failures = 0;
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        cursor.wake = resolve;
      });
      try {
        // What is not noted yet is not sent: its number is learned first.
        const size = this.#batchAfter(cursor.done);
        const records = size === 0 ? [] : await consumer.fetch(size);
        const last = records.at(-1);
        if (last === undefined) {
          await woken;
          continue;
        }
        const events = records.flatMap(({ sequence, value }) => unpack(sequence, value) ?? []);
        const wanted = events.filter(({ tag }) => accepts(tag));
        if (wanted.length > 0) await receiver.send(wanted, signal);
        await consumer.acknowledge(last.sequence);
        cursor.done = Math.max(cursor.done, last.sequence);
        await this.#trim();
        if (failures > 0) log.info({ export: name }, 'events are exported again');
        failures = 0;
      } catch (err) {
        if (signal.aborted) return;
        if (failures === 0) log.error({ export: name, err }, 'events were not exported');
        failures += 1;
        await sleepUntilAborted(retryDelayMs(failures, retryDelays, Math.random), signal);
      }
    }
  }
}

/** @throws SaltbridgeError ERR_PACKAGE_MISSING */
async function createReceiver(options: EventExport): Promise<Receiver> {
  if ('file' in options) return fileReceiver(options);
  if ('webhook' in options) return webhookReceiver(options);
  // Loaded where it is asked for: few masters export to NATS.
  const { natsReceiver } = await import('./nats-receiver.ts');
  return natsReceiver(options);
}

function acceptsOf({ match, exclude = [] }: EventExport): (tag: string) => boolean {
  const [wanted, unwanted] = [
    match?.map((glob) => compileGlob(glob)),
    exclude.map((glob) => compileGlob(glob)),
  ];
  return (tag) =>
    (wanted?.some((glob) => glob(tag)) ?? true) && !unwanted.some((glob) => glob(tag));
}

/** Records of the stream. */
const exportedRow = defineRow({
  name: 'exported event',
  schema: Type.Object({ tag: Type.String(), data: Type.Unsafe<WireMap>(Type.Object({})) }),
  packed: { data: localField },
  unversioned: (bytes) => {
    const parts = unpackLocal(bytes);
    const [tag, packed] = Array.isArray(parts) ? parts : [];
    return { tag, data: packed instanceof Uint8Array ? unpackLocal(packed) : undefined };
  },
});

/** `undefined`: the record is damaged. */
function unpack(sequence: number, value: Uint8Array): ExportedEvent | undefined {
  try {
    return { sequence, ...exportedRow.decode({ key: [stream, String(sequence)], value }) };
  } catch {
    return undefined;
  }
}
