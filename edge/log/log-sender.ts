/**
 * Sends the log of a site to its centre. Sends alarms and signals at once. Sends returns and facts
 * only during the turn that the centre gives to the site, at most at the configured rate.
 */

import type { Logger } from 'pino';
import { codeOf, sleepUntilAborted } from '#runtime';
import type { EarlyRequest, SiteLink } from '../link/link.ts';
import type { DurableLog } from './durable-log.ts';
import { bulkClasses, type LogClass, urgentClasses } from './log.ts';
import { encodeBatch, isMarker, type SentItem } from './log-codec.ts';
import {
  type Acknowledgement,
  batchMessages,
  maxBatchBytes,
  maxBatchEntries,
  turnEndMessage,
  turnMessage,
} from './log-messages.ts';

/**
 * Minimum size of a batch before compression, in bytes. A batch is smaller only if fewer entries
 * wait.
 */
const smallestBatch = 8192;
const largestBatch = 262_144;

/** Share of the maximum size of a batch that its entries are expected to have. */
const expectedFill = 0.9;

/**
 * Maximum size of the alarms in a batch that the site sends with the handshake, in bytes before
 * compression.
 */
const earlyBatch = 16_384;

/** Maximum size of the frame around a batch of alarms, in bytes. */
const earlyOverhead = 64;

/** Target duration of sending a batch, in milliseconds. */
const batchMs = 2000;

/** Delay before the next attempt after a failure, in milliseconds. */
const retryMs = 2000;

/**
 * Minimum remaining time of a turn in which the site still begins to send a batch, in milliseconds.
 * If less time remains, the site first requests another turn.
 */
const marginMs = 1000;

export interface LogSenderOptions {
  readonly log: DurableLog;
  readonly link: Pick<SiteLink, 'call' | 'onChange' | 'sendEarly' | 'state'>;
  /** Maximum rate of returns and facts, in bytes per second. 0: no limit. */
  readonly uploadBytesPerSecond: number;
  /** Called with the entries that the centre has refused. */
  readonly onRefused: (name: LogClass, refused: Acknowledgement['refused']) => void;
  readonly logger: Logger;
  readonly closing: AbortSignal;
}

export class LogSender {
  readonly #options: LogSenderOptions;
  readonly #stopped = new AbortController();
  #wake = new AbortController();
  /** Size of the next batch before compression, in bytes. */
  #size = smallestBatch * 2;
  /** Size of the latest batch after compression, as a share of its size before. */
  #ratio = 1;
  #turnEndsAt = 0;
  #running: Promise<unknown> | undefined;
  /**
   * Resolves when the centre has acknowledged the alarms that the site sent with the handshake, or
   * when this has failed. Never rejects. `undefined` if the handshake contained no alarms.
   */
  #early: Promise<unknown> | undefined;

  constructor(options: LogSenderOptions) {
    this.#options = options;
    options.log.onAppended = () => this.#notify();
    options.link.sendEarly((maxBytes) => this.#earlyBatch(maxBytes));
    options.link.onChange(() => {
      this.#turnEndsAt = 0;
      this.#notify();
    });
  }

  start(): void {
    this.#running ??= Promise.all([
      this.#run(urgentClasses, (name) => this.#sendBatch(name)),
      this.#run(bulkClasses, (name) => this.#sendInTurn(name)),
    ]);
  }

  async close(): Promise<void> {
    this.#stopped.abort();
    this.#notify();
    await this.#running;
  }

  #notify(): void {
    this.#wake.abort();
    this.#wake = new AbortController();
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted || this.#options.closing.aborted;
  }

  async #run(
    classes: readonly LogClass[],
    send: (name: LogClass) => Promise<unknown>,
  ): Promise<void> {
    const { log, link, logger, closing } = this.#options;
    while (!this.#isStopped) {
      // Read the signal before the check, so that no notification is missed.
      const wake = this.#wake.signal;
      const name = classes.find((it) => log.hasWork(it));
      if (name === undefined || !link.state.isConnected) {
        if (name === undefined && classes.includes('fact')) await this.#endTurn();
        await sleepUntilAborted(60_000, wake, this.#stopped.signal, closing);
        continue;
      }
      try {
        await send(name);
      } catch (error) {
        const isLost = codeOf(error) === 'ERR_SITE_LINK';
        if (!isLost && !this.#isStopped)
          logger.error({ err: error }, 'cannot send the log of this site to the centre; retrying');
        await sleepUntilAborted(retryMs, this.#wake.signal, this.#stopped.signal, closing);
      }
    }
  }

  /**
   * Sends a batch of returns or facts. Each site sends them only in its turn, and not faster than
   * the maximum rate. If this site has no turn, first requests one from the centre and waits for
   * it.
   */
  async #sendInTurn(name: LogClass): Promise<void> {
    const { link, uploadBytesPerSecond: rate, closing } = this.#options;
    if (performance.now() > this.#turnEndsAt - marginMs) {
      const { forMs } = await link.call(turnMessage, {}, this.#stopped.signal);
      this.#turnEndsAt = performance.now() + forMs;
    }
    const begun = performance.now();
    const bytes = await this.#sendBatch(name);
    const restMs = rate === 0 ? 0 : (bytes * 1000) / rate - (performance.now() - begun);
    if (restMs <= 0) return;
    if (restMs > marginMs) await this.#endTurn();
    await sleepUntilAborted(restMs, this.#stopped.signal, closing);
  }

  async #endTurn(): Promise<void> {
    const isHeld = performance.now() < this.#turnEndsAt;
    this.#turnEndsAt = 0;
    if (!isHeld) return;
    await this.#options.link.call(turnEndMessage, {}, this.#stopped.signal).catch(() => {
      // Ignore the error, because the centre ends the turn after its duration.
    });
  }

  /** Sends the oldest entries of a class. Returns the size of the batch in bytes. */
  async #sendBatch(name: LogClass): Promise<number> {
    const { log, link } = this.#options;
    if (name === 'alarm') await this.#early;
    const fitting = (maxBatchBytes * expectedFill) / this.#ratio;
    const items = await log.read(name, Math.min(this.#size, fitting), maxBatchEntries);
    const batch = bounded(items, maxBatchBytes);
    if (batch === undefined) return 0;
    this.#ratio = Math.min(1, batch.bytes.length / batch.rawBytes);
    const begun = performance.now();
    const params = { log: log.id, entries: batch.bytes };
    const reply = await link.call(batchMessages[name], params, this.#stopped.signal);
    this.#adapt(batch.rawBytes, performance.now() - begun);
    await this.#settle(name, items, reply);
    return batch.bytes.length;
  }

  /**
   * Returns a batch of alarms to send together with the handshake, or `undefined` if there are
   * none. If the site sends the batch again over another connection, the centre ignores the
   * repetition.
   */
  async #earlyBatch(maxBytes: number): Promise<EarlyRequest | undefined> {
    const { log } = this.#options;
    if (this.#isStopped || !log.hasWork('alarm')) return undefined;
    const { id } = log;
    const items = await log.read('alarm', earlyBatch, maxBatchEntries);
    const message = batchMessages.alarm;
    const batch = bounded(items, maxBytes - earlyOverhead);
    if (batch === undefined) return undefined;
    return {
      name: message.name,
      params: { log: id, entries: batch.bytes },
      onUsed: (reply) => {
        this.#early = reply(message)
          .then((acknowledgement) =>
            log.id === id ? this.#settle('alarm', items, acknowledgement) : undefined,
          )
          .catch((err: unknown) => {
            this.#options.logger.debug({ err }, 'the centre has not acknowledged early alarms');
          });
      },
    };
  }

  /**
   * Removes from the log the entries that the centre has acknowledged. If the centre has lost
   * earlier entries, begins a new log instead.
   */
  async #settle(
    name: LogClass,
    items: readonly SentItem[],
    { sequence, refused }: Acknowledgement,
  ): Promise<void> {
    const { log, logger, onRefused } = this.#options;
    if (refused.length > 0) onRefused(name, refused);
    if (isGap(items, sequence)) {
      logger.warn(
        { class: name },
        'the centre has lost earlier entries of this site; the site begins a new log',
      );
      await log.renew();
      return;
    }
    await log.acknowledge(name, sequence);
  }

  /**
   * Chooses the size of the next batch, so that sending takes about {@link batchMs}. The size is at
   * most twice the previous size.
   * @param bytes - size of the last batch before compression
   * @param ms - duration of sending the last batch
   */
  #adapt(bytes: number, ms: number): void {
    const wanted = (bytes / Math.max(1, ms)) * batchMs;
    // The duration of a small batch is mostly the round trip, so it does not show the rate of the
    // link.
    const target = ms < batchMs ? Math.max(this.#size * 2, wanted) : wanted;
    this.#size = Math.min(largestBatch, Math.max(smallestBatch, Math.min(target, this.#size * 2)));
  }
}

/**
 * Whether the centre lacks entries that precede these items. This happens if the store of the
 * centre was restored from a backup after the centre had acknowledged the entries.
 */
function isGap(items: readonly SentItem[], sequence: number): boolean {
  const [first] = items;
  return first !== undefined && sequence < (isMarker(first) ? first.from : first.sequence) - 1;
}

/** Encodes as many of the first items as a batch can contain. Encodes at least one item. */
function bounded(
  items: readonly SentItem[],
  maxBytes: number,
): { readonly bytes: Uint8Array; readonly rawBytes: number } | undefined {
  if (items.length === 0) return undefined;
  for (let count = items.length; ; ) {
    const chosen = items.slice(0, count);
    const bytes = encodeBatch(chosen);
    if (bytes.length <= maxBytes || count === 1) {
      const rawBytes = chosen.reduce((sum, it) => sum + ('value' in it ? it.value.length : 32), 0);
      return { bytes, rawBytes };
    }
    const fitting = Math.floor((count * maxBytes * expectedFill) / bytes.length);
    count = Math.max(1, Math.min(count - 1, fitting));
  }
}
