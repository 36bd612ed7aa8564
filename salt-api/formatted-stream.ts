/** Streams of formatted events: when they send their states, and how much. */
import type { MasterEvent } from '#master';
import { delay, type SendQueue, TokenBuckets, WorkBudget } from '#runtime';
import { type EventWriterOptions, keepAliveMs } from './event-stream.ts';
import type { FormattedEvents } from './formatted-events.ts';
import { apiLimits } from './limits.ts';

export interface StateWriterOptions extends Omit<EventWriterOptions, 'form'> {
  readonly state: FormattedEvents;
  readonly keepAlive: Uint8Array;
  /** Owner of the bytes in limits. */
  readonly owner: string;
  readonly pace: Pick<StatePace, 'noteEvents' | 'noteSent' | 'turn'>;
}

/** Determines when streams of formatted events apply events, and send their states. */
export class StatePace {
  readonly #sent: TokenBuckets;
  readonly #delay: (milliseconds: number) => Promise<void>;
  /** All streams share one budget, so that many small changes need few slices. */
  readonly #budget = new WorkBudget({ steps: Infinity });

  /** @param sent - the limit `formattedBytes` */
  constructor(
    sent: TokenBuckets = new TokenBuckets(apiLimits.formattedBytes),
    wait: (milliseconds: number) => Promise<void> = delay,
  ) {
    this.#sent = sent;
    this.#delay = wait;
  }

  /** Lets other work run if the streams have used up their slice. */
  async turn(): Promise<void> {
    if (this.#budget.isSliceOver) await this.#budget.giveWay();
  }

  /** Counts the work of applying events. */
  noteEvents(events: readonly MasterEvent[]): void {
    for (const { data } of events) {
      const ids = data.minions ?? data.present;
      const count = Array.isArray(ids) ? ids.length : 0;
      this.#budget.spend('formatted events', stepsOfEvent + count * stepsOfMinion);
    }
  }

  /** Counts sent bytes. Resolves when the user may send further bytes. */
  async noteSent(owner: string, bytes: number): Promise<void> {
    this.#budget.spend('formatted events', Math.ceil(bytes * stepsOfByte));
    const wait = this.#sent.take(owner, bytes);
    if (wait > 0) await this.#delay(wait);
  }
}

/** Steps of applying an event, of a minion that the event names, and of a byte that is sent. */
const stepsOfEvent = 100;
const stepsOfMinion = 20;
const stepsOfByte = 0.1;

/**
 * Writes the state that events change, like {@link writeEvents}. Changes are combined as long as
 * the user may send no further bytes.
 */
export async function writeStates(
  batches: AsyncIterable<readonly MasterEvent[]>,
  queue: Pick<SendQueue, 'cut' | 'end' | 'push' | 'waitingBytes'>,
  { state, keepAlive, flushTimer, owner, pace, log }: StateWriterOptions,
): Promise<void> {
  const timer = setInterval(() => {
    if (queue.waitingBytes === 0) queue.push(keepAlive);
  }, keepAliveMs);
  timer.unref();
  let isOpen = true;
  let isSending = false;
  let failure: { readonly err: unknown } | undefined;
  const send = async (): Promise<void> => {
    isSending = true;
    try {
      while (isOpen && state.hasChanged) {
        await pace.turn();
        const frames = state.take();
        for (const frame of frames) isOpen = queue.push(frame) && isOpen;
        const bytes = frames.reduce((sum, { byteLength }) => sum + byteLength, 0);
        await pace.noteSent(owner, bytes);
      }
    } catch (err) {
      failure = { err };
    } finally {
      isSending = false;
    }
  };
  try {
    for await (const events of batches) {
      await pace.turn();
      state.apply(events);
      pace.noteEvents(events);
      if (!isSending) void send();
      await flushTimer.next();
      if (failure !== undefined) throw failure.err;
      if (!isOpen) return;
    }
    queue.end();
  } catch (err) {
    log.warn({ err }, 'closed an event stream of an HTTP client because of an error');
    queue.cut();
  } finally {
    isOpen = false;
    clearInterval(timer);
  }
}
