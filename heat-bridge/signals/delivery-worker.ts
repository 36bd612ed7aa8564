import type { Logger } from 'pino';
import {
  type HttpClient,
  KeyedSemaphore,
  originOf,
  type RetryDelays,
  retryDelayMs,
  sleepUntilAborted,
} from '#runtime';
import type { DeliveryOutcome } from '../openstack/service-answer.ts';
import {
  type Destination,
  deliverSignal,
  secretsOf,
  storesAfterReply,
} from '../transports/transports.ts';
import type { HandleInfo, HandleRegistry } from './handles.ts';
import type { HeldSignals } from './held-signals.ts';
import type { Outbox, PendingSignal, PendingSignals } from './outbox.ts';
import type { OutboxRecord } from './outbox-records.ts';
import { signalId } from './signal.ts';
import type { SignalReporter } from './signal-reporter.ts';

/** How often and how fast signals are sent. */
interface DeliveryPace {
  readonly backOff: RetryDelays;
  /** Milliseconds between two signals under one id where the service stores after it answers. */
  readonly sameIdMs: number;
  /** Exchanges at a time with one service. */
  readonly perEndpoint: number;
}

export interface DeliveryWorkerOptions {
  readonly handles: Pick<HandleRegistry, 'destinationOf' | 'find'>;
  readonly outbox: Outbox;
  /** Takes the signals without a handle. */
  readonly held: Pick<HeldSignals, 'add' | 'forget'>;
  readonly ask: HttpClient;
  readonly pace: DeliveryPace;
  readonly now: () => number;
  readonly log: Logger;
  readonly reports: Pick<SignalReporter, 'delivered' | 'givenUp'>;
}

/** Milliseconds before a service that works is asked again whether it has taken the signal before. */
const turnMs = 1_000;

/** The signals of one handle. */
interface HandleQueue {
  readonly handle: string;
  readonly queue: PendingSignal[];
  /** The one that is delivered now. */
  current: PendingSignal | undefined;
  failures: number;
  reason: string | undefined;
  /** What the service answered to the last try. */
  httpStatus: number | undefined;
  isSending: boolean;
  /** Ends a pause early. */
  wake: AbortController;
  /** Until when the next signal under an id waits; by the id under which Heat counts. */
  readonly resting: Map<string, number>;
  /** Set while all that is queued rests; ends the rest. */
  restOver: AbortController | undefined;
}

/**
 * Delivers the signals of the outbox while this master is to: one member of a cluster at a time is.
 * Signals of a handle are delivered one after the other, and those without a handle are held.
 */
export class DeliveryWorker implements PendingSignals {
  readonly #options: DeliveryWorkerOptions;
  /** By the id of the handle. */
  readonly #lanes = new Map<string, HandleQueue>();
  readonly #endpoints: KeyedSemaphore;
  readonly #work = new Set<Promise<void>>();
  /** Keystone tokens of handles. */
  readonly #tokens = new Map<string, string>();
  /** Ends the delivery at this master. Aborted: it does not deliver now. */
  #closing = AbortSignal.abort();

  constructor(options: DeliveryWorkerOptions) {
    this.#options = options;
    this.#endpoints = new KeyedSemaphore(options.pace.perEndpoint);
  }

  /** Begins with what waits. Once the signal has fired, nothing is sent any more. */
  async begin(ended: AbortSignal): Promise<void> {
    await this.close();
    if (ended.aborted) return;
    this.#lanes.clear();
    this.#closing = ended;
    for (const pending of this.#options.outbox.pending) {
      if (pending.handle !== undefined) this.add(pending);
    }
  }

  /** Returns the state of a signal that is not over, as far as this master knows it. */
  stateOf({ id, handle }: PendingSignal): {
    readonly state: 'held' | 'sending' | 'waiting';
    readonly failures: number;
    readonly reason: string | undefined;
    readonly httpStatus?: number | undefined;
  } {
    const state = handle === undefined ? 'held' : 'waiting';
    const lane = this.#closing.aborted ? undefined : this.#lanes.get(handle ?? '');
    if (lane === undefined || lane.current?.id !== id) {
      return { state, failures: 0, reason: undefined };
    }
    const { failures, reason, httpStatus, isSending } = lane;
    return { state: isSending ? 'sending' : 'waiting', failures, reason, httpStatus };
  }

  /**
   * Tries the next signal of a handle now: it was changed or removed.
   * @param handle - its id
   */
  wake(handle: string): void {
    if (this.#closing.aborted) return;
    const lane = this.#lanes.get(handle);
    lane?.wake.abort();
    lane?.restOver?.abort();
  }

  forget(pending: PendingSignal): void {
    this.#options.held.forget(pending);
  }

  /** Waits for what is under way, which the signal of {@link begin} ends. */
  async close(): Promise<void> {
    await Promise.all(this.#work);
  }

  /** Delivers a signal behind the others of its handle, if it is delivered here. */
  add(pending: PendingSignal): void {
    const { handle } = pending;
    if (handle === undefined) this.#options.held.add(pending);
    if (handle === undefined || this.#closing.aborted) return;
    const known = this.#lanes.get(handle);
    if (known !== undefined) {
      known.queue.push(pending);
      if (!known.resting.has(signalId(pending.minion, pending.member))) known.restOver?.abort();
      return;
    }
    const lane: HandleQueue = {
      handle,
      queue: [pending],
      current: undefined,
      failures: 0,
      reason: undefined,
      httpStatus: undefined,
      isSending: false,
      wake: new AbortController(),
      resting: new Map(),
      restOver: undefined,
    };
    this.#lanes.set(handle, lane);
    const done = this.#run(pending.alias, lane)
      .catch((error: unknown) => {
        this.#options.log.error({ err: error }, 'signals were not delivered');
      })
      .finally(() => this.#work.delete(done));
    this.#work.add(done);
  }

  /** One at a time: two under the same id would be stored in either order. */
  async #run(alias: string, lane: HandleQueue): Promise<void> {
    const { log } = this.#options;
    const closing = this.#closing;
    while (!closing.aborted) {
      const next = this.#nextOf(lane);
      if (next === undefined) {
        if (lane.resting.size === 0) break;
        await this.#rest(lane);
        continue;
      }
      lane.current = next;
      try {
        if (!(await next.isWritten) || (await this.#isOver(next, lane))) {
          lane.queue.splice(lane.queue.indexOf(next), 1);
          lane.current = undefined;
          lane.failures = 0;
          lane.reason = undefined;
          lane.httpStatus = undefined;
        }
      } catch (error) {
        // The store, or a sealed row: what is in the outbox stays there.
        log.error({ alias, err: error }, 'signal was not tried');
        lane.failures += 1;
        await this.#pause(lane, this.#backOff(lane));
      }
    }
    if (!closing.aborted) this.#lanes.delete(lane.handle);
  }

  /** What is being delivered, or else the oldest signal whose id does not rest. */
  #nextOf({ current, queue, resting }: HandleQueue): PendingSignal | undefined {
    if (current !== undefined) return current;
    const now = this.#options.now();
    for (const [id, until] of resting) if (until <= now) resting.delete(id);
    if (resting.size === 0) return queue[0];
    return queue.find(({ minion, member }) => !resting.has(signalId(minion, member)));
  }

  /** Until the first id may be used again, or another signal comes. */
  async #rest(lane: HandleQueue): Promise<void> {
    const { now } = this.#options;
    const closing = this.#closing;
    lane.restOver = new AbortController();
    await sleepUntilAborted(
      Math.min(...lane.resting.values()) - now(),
      closing,
      lane.restOver.signal,
    );
    lane.restOver = undefined;
  }

  /** @returns whether the signal is over; if not, as much time has passed as there must */
  async #isOver(pending: PendingSignal, lane: HandleQueue): Promise<boolean> {
    const { handles, outbox, now } = this.#options;
    const closing = this.#closing;
    const record = await outbox.read(pending);
    if (record === undefined) return true;
    const handle = handles.find(lane.handle);
    if (handle === undefined) {
      return this.#bury(pending, record, undefined, 'the handle was removed');
    }
    if (handle.expiresAt <= now()) {
      const last = lane.reason === undefined ? '' : `; last: ${lane.reason}`;
      return this.#bury(pending, record, handle, `the handle has expired${last}`, lane.httpStatus);
    }
    const destination = handles.destinationOf(lane.handle);
    const outcome = await this.#try(record, handle, destination, lane);
    if (outcome.kind === 'delivered') {
      const { sameIdMs } = this.#options.pace;
      if (sameIdMs > 0 && storesAfterReply(destination)) {
        lane.resting.set(signalId(record.minion, record.member), now() + sameIdMs);
      }
      await outbox.markDelivered(pending, record, outcome.httpStatus);
      this.#options.reports.delivered(record, handle);
      return true;
    }
    if (outcome.kind === 'final') {
      return this.#bury(pending, record, handle, outcome.reason, outcome.httpStatus);
    }
    if (closing.aborted) return false;
    lane.reason = outcome.reason;
    lane.httpStatus = outcome.httpStatus;
    if (outcome.isTurn !== true) lane.failures += 1;
    const wait = outcome.isTurn === true ? turnMs : this.#backOff(lane);
    await this.#pause(lane, Math.min(wait, handle.expiresAt - now()));
    return false;
  }

  async #bury(
    pending: PendingSignal,
    record: OutboxRecord,
    handle: HandleInfo | undefined,
    reason: string,
    httpStatus?: number,
  ): Promise<true> {
    await this.#options.outbox.moveToDeadLetter(pending, record, reason, httpStatus);
    this.#options.reports.givenUp(record, handle, reason);
    return true;
  }

  async #try(
    record: OutboxRecord,
    { expiresAt }: HandleInfo,
    destination: Destination,
    lane: HandleQueue,
  ): Promise<DeliveryOutcome> {
    const { ask, now } = this.#options;
    const closing = this.#closing;
    lane.isSending = true;
    try {
      const outcome = await deliverSignal({
        destination,
        record,
        signalId: signalId(record.minion, record.member),
        failures: lane.failures,
        expiresAt,
        now,
        ask: (request) => this.#endpoints.run(originOf(request.url), () => ask(request, closing)),
        tokens: this.#tokens,
      });
      return redactSecrets(outcome, destination);
    } finally {
      lane.isSending = false;
    }
  }

  #backOff({ failures }: HandleQueue): number {
    return retryDelayMs(failures, this.#options.pace.backOff, Math.random);
  }

  async #pause(lane: HandleQueue, milliseconds: number): Promise<void> {
    lane.wake = new AbortController();
    await sleepUntilAborted(milliseconds, this.#closing, lane.wake.signal);
  }
}

/** A service may repeat what it was asked with. */
function redactSecrets(outcome: DeliveryOutcome, destination: Destination): DeliveryOutcome {
  if (outcome.kind === 'delivered') return outcome;
  let { reason } = outcome;
  for (const secret of secretsOf(destination)) reason = reason.replaceAll(secret, '(secret)');
  return { ...outcome, reason };
}
