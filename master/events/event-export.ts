/**
 * Exports events to other services. Each event is first stored and then sent to each receiver at
 * least once. The publication of an event does not wait for the export.
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

/** Methods of the event bus that the export uses. */
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
  /** Maximum size of the stored events that are waiting for a receiver, in bytes. */
  readonly maxBytes: number;
  readonly store: Store;
  readonly bus: ExportedBus;
  readonly log: Logger;
  /** Function that is called with the number of dropped events. */
  readonly onDropped: (events: number) => void;
}

/** Tag of the event which reports that events were dropped. */
const exportDroppedTag = 'saltbridge/export/dropped';

const stream = 'event-export';
const pageSize = 256;
/** Maximum number of events in a batch. */
const batchSize = 100;
/** Maximum total size of the events in a batch, in bytes. A single event may be larger. */
const batchBytes = 1_048_576;
/** Maximum number of events that wait to be written to the store. */
const capacity = 50_000;
const retryDelays = { initialDelayMs: 1000, maxDelayMs: 60_000 };

interface Waiting {
  readonly sequence: number;
  readonly bytes: number;
}

/** Receiver of events, with its progress. */
interface Cursor {
  readonly name: string;
  readonly receiver: Receiver;
  readonly consumer: StreamConsumer;
  readonly accepts: (tag: string) => boolean;
  /** Sequence number of the last record that the receiver has accepted, or that was dropped. */
  done: number;
  wake: () => void;
}

export class EventExporter {
  readonly #deps: EventExportDeps;
  readonly #cursors: readonly Cursor[];
  readonly #end = new AbortController();
  /** Records in the store, oldest first. Only the elements from index `#first` on are valid. */
  #waiting: Waiting[] = [];
  #first = 0;
  #bytes = 0;
  /** Sequence number of the last record written. */
  #last = 0;
  /**
   * Whether dropped events were reported recently, so that further ones are not reported. Becomes
   * false when the stored events have shrunk below half of their maximum size.
   */
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
   * Starts storing and sending events, including stored events of an earlier run.
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

  /** Total size of the stored events that are waiting for a receiver, in bytes. */
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

  /** Writes published events to the store in groups. Publishers do not wait for it. */
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
        // The store rejects writes or is too slow for the rate of events. All pending events are
        // lost.
        log.error({ err }, 'some events could not be stored for export, and will not be exported');
        if (unwritten > 0) this.#reportDropped(unwritten, 'the store rejected the write');
        else this.#reportDropped(capacity, 'the store was too slow');
        await sleepUntilAborted(retryDelays.initialDelayMs, signal);
      }
    }
  }

  async #write(events: readonly MasterEvent[]): Promise<void> {
    const { store, maxBytes } = this.#deps;
    const values = events.map(({ tag, data }) => exportedRow.encode({ tag, data }));
    const last = this.#last;
    await store.write(values.map((value) => ({ op: 'append', stream, value })));
    // If the store was reopened, it may have continued with another sequence number. So the number
    // of the first record is read back.
    const [first] = await store.stream(stream).read({ after: last, limit: 1 });
    const begin = first?.sequence ?? last + 1;
    for (const [index, { byteLength }] of values.entries()) this.#note(begin + index, byteLength);
    this.#last = begin + values.length - 1;
    await this.#bound(maxBytes);
    for (const { wake } of this.#cursors) wake();
  }

  /**
   * If the backlog exceeds the limit, drops the oldest records, even if a receiver has not accepted
   * them yet.
   */
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
    this.#reportDropped(dropped, `the backlog exceeds ${maxBytes} bytes`);
  }

  /**
   * Counts dropped events and reports the loss. It reports again only after the backlog has shrunk
   * to half of its limit.
   */
  #reportDropped(events: number, reason: string): void {
    const { bus, log, onDropped } = this.#deps;
    onDropped(events);
    if (this.#isOver) return;
    this.#isOver = true;
    const waiting = this.#cursors.filter(({ done }) => done < this.#last).map(({ name }) => name);
    log.error(
      { events, reason, exports: waiting },
      'dropped some events before they were exported; the field `reason` says why',
    );
    bus.fire(exportDroppedTag, { reason, exports: waiting });
  }

  /** Deletes the records that every receiver has acknowledged. */
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

  /**
   * Returns the number of records in the next batch for a receiver.
   * @param done - sequence number of the last record that the receiver has accepted
   */
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

  /** Sends batches to one receiver, in order. */
  async #deliver(cursor: Cursor, signal: AbortSignal): Promise<void> {
    const { log } = this.#deps;
    const { name, receiver, consumer, accepts } = cursor;
    let failures = 0;
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        cursor.wake = resolve;
      });
      try {
        // Send only records with a known sequence number.
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
        if (failures > 0) log.info({ export: name }, 'the event export works again');
        failures = 0;
      } catch (err) {
        if (signal.aborted) return;
        if (failures === 0) log.error({ export: name, err }, 'the event export failed; retrying');
        failures += 1;
        await sleepUntilAborted(retryDelayMs(failures, retryDelays, Math.random), signal);
      }
    }
  }
}

/**
 * Creates the receiver of an export.
 * @throws SaltbridgeError ERR_PACKAGE_MISSING
 */
async function createReceiver(options: EventExport): Promise<Receiver> {
  if ('file' in options) return fileReceiver(options);
  if ('webhook' in options) return webhookReceiver(options);
  // The module is loaded on demand, because few masters export to NATS.
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

/** Codec of the records in the export stream. */
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

/** Returns the event of a record, or `undefined` if the record is damaged. */
function unpack(sequence: number, value: Uint8Array): ExportedEvent | undefined {
  try {
    return { sequence, ...exportedRow.decode({ key: [stream, String(sequence)], value }) };
  } catch {
    return undefined;
  }
}
