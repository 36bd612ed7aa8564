import type { Logger } from 'pino';
import {
  type HttpClient,
  KeyedFairSlots,
  originOf,
  type RetryDelays,
  retryDelayMs,
  sleepUntilAborted,
} from '#runtime';
import { bridgeLimits } from '../limits.ts';
import { type DeliveryOutcome, redactSecrets } from '../openstack/service-answer.ts';
import { HandleTokenCache } from '../transports/handle-tokens.ts';
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

/** Delays and concurrency of the delivery. */
interface DeliveryPace {
  readonly backOff: RetryDelays;
  /**
   * Minimum delay between two signals with the same Heat signal id, in milliseconds. It applies
   * only to services that may respond before they have stored the first signal.
   */
  readonly sameIdMs: number;
  /** Maximum number of concurrent requests to one service. */
  readonly perEndpoint: number;
}

export interface DeliveryWorkerOptions {
  readonly handles: Pick<HandleRegistry, 'destinationOf' | 'find'>;
  readonly outbox: Outbox;
  /** Receiver of signals for which no handle is registered. */
  readonly held: Pick<HeldSignals, 'add' | 'forget'>;
  readonly ask: HttpClient;
  readonly pace: DeliveryPace;
  readonly now: () => number;
  readonly log: Logger;
  readonly reports: Pick<SignalReporter, 'delivered' | 'givenUp'>;
}

/**
 * Delay before the next attempt to deliver a signal, in milliseconds. It applies if the service has
 * not read the previous signal yet.
 */
const turnMs = 1_000;

/** Queue of the signals for one handle. */
interface HandleQueue {
  readonly handle: string;
  readonly queue: PendingSignal[];
  /** Signal that is being delivered. */
  current: PendingSignal | undefined;
  failures: number;
  reason: string | undefined;
  /** HTTP status of the last attempt to deliver `current`. `undefined` if there was no response. */
  httpStatus: number | undefined;
  isSending: boolean;
  /** Controller of the delay before a retry. Aborting it ends the delay early. */
  wake: AbortController;
  /**
   * Ids of Heat signals that must not be sent again yet, because the service may not have stored
   * the previous signal with the id. The value is the time from which the id may be sent again, in
   * milliseconds since 1970.
   */
  readonly resting: Map<string, number>;
  /**
   * Abort controller of the queue's wait. Aborting it ends the wait early. The queue waits while
   * the Heat signal ids of all its signals are in {@link resting}. `undefined` while the queue does
   * not wait.
   */
  restOver: AbortController | undefined;
}

/**
 * Delivers the signals of the outbox while this master is active. In a cluster, only one member is
 * active at a time. The signals for one handle are delivered in order. Signals for which no handle
 * is registered yet stay in `held`, the list of held signals.
 */
export class DeliveryWorker implements PendingSignals {
  readonly #options: DeliveryWorkerOptions;
  /** Queues by the id of the handle. */
  readonly #lanes = new Map<string, HandleQueue>();
  /** Limits the number of concurrent requests to each service. Owners of handles take turns. */
  readonly #endpoints: KeyedFairSlots;
  readonly #work = new Set<Promise<void>>();
  readonly #tokens = new HandleTokenCache();
  /** Aborted while this master is not active. */
  #closing = AbortSignal.abort();

  constructor(options: DeliveryWorkerOptions) {
    this.#options = options;
    this.#endpoints = new KeyedFairSlots(bridgeLimits.deliveries, options.pace.perEndpoint);
  }

  /**
   * Starts to deliver the pending signals of the outbox. After `ended` is aborted, nothing more is
   * sent.
   */
  async begin(ended: AbortSignal): Promise<void> {
    await this.close();
    if (ended.aborted) return;
    this.#lanes.clear();
    this.#closing = ended;
    for (const pending of this.#options.outbox.pending) {
      if (pending.handle !== undefined) this.add(pending);
    }
  }

  /**
   * Returns the state of a pending signal. Only the member that delivers signals knows about
   * attempts. On other members, `state` is never `sending`, and `failures` is 0.
   */
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
   * Retries the next signal for a handle immediately. Must be called after the handle was changed
   * or removed.
   * @param handle - id of the handle
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

  /**
   * Waits until the deliveries in progress have ended. They end when the abort signal that was
   * passed to {@link begin} is aborted.
   */
  async close(): Promise<void> {
    await Promise.all(this.#work);
  }

  /**
   * Adds a signal to the queue of its handle, unless delivery has stopped. A signal without a
   * handle is added to the held signals instead.
   */
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
        this.#options.log.error(
          { err: error },
          'internal error while delivering signals to a handle; to deliver its remaining signals, restart the master',
        );
      })
      .finally(() => this.#work.delete(done));
    this.#work.add(done);
  }

  /**
   * Delivers the signals of a queue one after the other. Otherwise the service could store two
   * signals with the same id in the wrong order.
   */
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
        // The store failed, or a row could not be decrypted. The signal stays in the outbox.
        log.error(
          { alias, err: error },
          'could not read a signal or its handle from the store; retrying',
        );
        lane.failures += 1;
        await this.#pause(lane, this.#backOff(lane));
      }
    }
    if (!closing.aborted) this.#lanes.delete(lane.handle);
  }

  /**
   * Returns the signal that is being delivered. If there is none, returns the oldest signal whose
   * Heat signal id is not in {@link HandleQueue.resting}. Returns `undefined` if there is no such
   * signal.
   */
  #nextOf({ current, queue, resting }: HandleQueue): PendingSignal | undefined {
    if (current !== undefined) return current;
    const now = this.#options.now();
    for (const [id, until] of resting) if (until <= now) resting.delete(id);
    if (resting.size === 0) return queue[0];
    return queue.find(({ minion, member }) => !resting.has(signalId(minion, member)));
  }

  /**
   * Called when all waiting signals have a Heat signal id that was sent too recently. Waits until
   * the first of these ids may be sent again. Ends early when a signal with another id arrives.
   */
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

  /**
   * Makes one attempt to deliver a signal. After a failure that permits a retry, waits before it
   * returns.
   * @returns whether the delivery has ended, with or without success
   */
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
      const last =
        lane.reason === undefined ? '' : `; reason of the last failed delivery: ${lane.reason}`;
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
    { owner = '', expiresAt }: HandleInfo,
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
        ask: (request) =>
          this.#endpoints.run(originOf(request.url), owner, () => ask(request, closing)),
        tokens: this.#tokens.of(owner),
      });
      return redactSecrets(outcome, secretsOf(destination));
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
