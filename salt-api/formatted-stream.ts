/**
 * Writes the streams of `/ws?format_events`. Limits the work for these streams, and the number of
 * bytes that are sent to each user.
 */
import type { MasterEvent } from '#master';
import { delay, type SendQueue, TokenBuckets, unlimitedSteps, WorkBudget } from '#runtime';
import {
  type EventFormat,
  type EventWriterOptions,
  endWithError,
  keepAliveMs,
} from './event-stream.ts';
import type { FormattedEvents } from './formatted-events.ts';
import { apiLimits } from './limits.ts';

export interface StateWriterOptions extends Omit<EventWriterOptions, 'form'> {
  readonly state: FormattedEvents;
  readonly keepAlive: Uint8Array;
  /** Encodes the event with which the stream ends because of an error. */
  readonly encode: EventFormat['encode'];
  /** Name under which the limit `formattedBytes` counts the bytes that are sent to a user. */
  readonly owner: string;
  readonly pace: Pick<StatePace, 'noteEvents' | 'noteSent' | 'turn'>;
}

/**
 * Slows down the streams of `/ws?format_events`. Interrupts their work so that other work can run,
 * and limits the rate of the bytes that are sent to each user.
 */
export class StatePace {
  readonly #sent: TokenBuckets;
  readonly #delay: (milliseconds: number) => Promise<void>;
  /**
   * Work budget that all streams share. When their combined work fills a slice, the streams let
   * other work run.
   */
  readonly #budget = new WorkBudget(unlimitedSteps);

  /**
   * @param sent - token buckets that limit how many bytes per second are sent to each user.
   * Default: buckets with the limit `formattedBytes`
   * @param wait - returns a promise that resolves after the given time; tests can replace it
   */
  constructor(
    sent: TokenBuckets = new TokenBuckets(apiLimits.formattedBytes),
    wait: (milliseconds: number) => Promise<void> = delay,
  ) {
    this.#sent = sent;
    this.#delay = wait;
  }

  /** Lets other work run if the streams have worked for too long without a pause. */
  async turn(): Promise<void> {
    if (this.#budget.isSliceOver) await this.#budget.giveWay();
  }

  /** Counts the work of applying these events to the state of one reader. */
  noteEvents(events: readonly MasterEvent[]): void {
    for (const { data } of events) {
      const ids = data.minions ?? data.present;
      const count = Array.isArray(ids) ? ids.length : 0;
      this.#budget.spend('formatted events', stepsOfEvent + count * stepsOfMinion);
    }
  }

  /** Counts bytes that were sent to a user. Resolves when the rate limit permits sending more. */
  async noteSent(owner: string, bytes: number): Promise<void> {
    this.#budget.spend('formatted events', Math.ceil(bytes * stepsOfByte));
    const wait = this.#sent.take(owner, bytes);
    if (wait > 0) await this.#delay(wait);
  }
}

/**
 * Number of work steps that each applied event costs. Each minion that the event names costs
 * `stepsOfMinion` more, and each sent byte `stepsOfByte`.
 */
const stepsOfEvent = 100;
const stepsOfMinion = 20;
const stepsOfByte = 0.1;

/**
 * Applies events to the state of a reader, and sends the changed state. While the rate limit
 * permits no further bytes, collects changes and sends them together later. Ends the stream when
 * there are no more events, or when the reader disconnects or is too slow.
 */
export async function writeStates(
  batches: AsyncIterable<readonly MasterEvent[]>,
  queue: Pick<SendQueue, 'end' | 'push' | 'waitingBytes'>,
  { state, keepAlive, encode, flushTimer, owner, pace, log }: StateWriterOptions,
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
    endWithError(err, { queue, log, encode });
  } finally {
    isOpen = false;
    clearInterval(timer);
  }
}
