import type { Logger } from 'pino';
import {
  type HttpClient,
  KeyedSemaphore,
  originOf,
  type RetryDelays,
  retryDelayMs,
  sleepUntilAborted,
} from '#runtime';
import { bridgeLimits } from '../limits.ts';
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

/** Retry delays and concurrency of the delivery. */
interface DeliveryPace {
  readonly backOff: RetryDelays;
  /**
   * Delay between two signals with the same id, in milliseconds, for services that store a signal
   * after they reply.
   */
  readonly sameIdMs: number;
  /** Maximum number of concurrent requests to one service. */
  readonly perEndpoint: number;
}

export interface DeliveryWorkerOptions {
  readonly handles: Pick<HandleRegistry, 'destinationOf' | 'find'>;
  readonly outbox: Outbox;
  /** Holds the signals without a handle. */
  readonly held: Pick<HeldSignals, 'add' | 'forget'>;
  readonly ask: HttpClient;
  readonly pace: DeliveryPace;
  readonly now: () => number;
  readonly log: Logger;
  readonly reports: Pick<SignalReporter, 'delivered' | 'givenUp'>;
}

/**
 * Delay before the next request to a working service that has not yet stored the previous signal,
 * in milliseconds.
 */
const turnMs = 1_000;

/** Queue of the signals of one handle. */
interface HandleQueue {
  readonly handle: string;
  readonly queue: PendingSignal[];
  /** Signal that is being delivered. */
  current: PendingSignal | undefined;
  failures: number;
  reason: string | undefined;
  /** HTTP status of the last attempt. */
  httpStatus: number | undefined;
  isSending: boolean;
  /** Aborted to end a pause early. */
  wake: AbortController;
  /** Time until which the next signal with the same id waits, by Heat signal id. */
  readonly resting: Map<string, number>;
  /** Set while all queued signals rest; aborted to end the rest early. */
  restOver: AbortController | undefined;
}

/**
 * Delivers the signals of the outbox while this master is active. In a cluster, one member at a
 * time is active. Delivers the signals of one handle in order, and holds signals without a handle.
 */
export class DeliveryWorker implements PendingSignals {
  readonly #options: DeliveryWorkerOptions;
  /** Queues by handle id. */
  readonly #lanes = new Map<string, HandleQueue>();
  readonly #endpoints: KeyedSemaphore;
  readonly #work = new Set<Promise<void>>();
  /** Keystone tokens of handles. */
  readonly #tokens = new Map<string, string>();
  /** Aborted while this master does not deliver. */
  #closing = AbortSignal.abort();

  constructor(options: DeliveryWorkerOptions) {
    this.#options = options;
    this.#endpoints = new KeyedSemaphore(bridgeLimits.deliveries, options.pace.perEndpoint);
  }

  /** Starts with the pending signals of the outbox. Sends nothing after `ended` fires. */
  async begin(ended: AbortSignal): Promise<void> {
    await this.close();
    if (ended.aborted) return;
    this.#lanes.clear();
    this.#closing = ended;
    for (const pending of this.#options.outbox.pending) {
      if (pending.handle !== undefined) this.add(pending);
    }
  }

  /** Returns the state of a pending signal, as far as this member can see it. */
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
   * Retries the next signal of a handle immediately, because the handle was changed or removed.
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

  /** Waits for the work in progress, which the signal of {@link begin} ends. */
  async close(): Promise<void> {
    await Promise.all(this.#work);
  }

  /** Queues a signal behind the others of its handle, if this master delivers. */
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
        this.#options.log.error({ err: error }, 'delivery of signals failed');
      })
      .finally(() => this.#work.delete(done));
    this.#work.add(done);
  }

  /**
   * Delivers one signal at a time, because the service could store two signals with the same id in
   * either order.
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
        // The store failed, or a sealed row could not be opened: the signal stays in the outbox.
        log.error({ alias, err: error }, 'delivery attempt failed before the signal was sent');
        lane.failures += 1;
        await this.#pause(lane, this.#backOff(lane));
      }
    }
    if (!closing.aborted) this.#lanes.delete(lane.handle);
  }

  /** Returns the signal that is being delivered, or the oldest signal whose id does not rest. */
  #nextOf({ current, queue, resting }: HandleQueue): PendingSignal | undefined {
    if (current !== undefined) return current;
    const now = this.#options.now();
    for (const [id, until] of resting) if (until <= now) resting.delete(id);
    if (resting.size === 0) return queue[0];
    return queue.find(({ minion, member }) => !resting.has(signalId(minion, member)));
  }

  /** Waits until the first resting id may be used again or another signal arrives. */
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
   * Tries to deliver a signal, and waits before the next try if it failed.
   * @returns whether the signal has reached a final state
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

/** Replaces secrets in the reason of a failure, because a service may echo the request. */
function redactSecrets(outcome: DeliveryOutcome, destination: Destination): DeliveryOutcome {
  if (outcome.kind === 'delivered') return outcome;
  let { reason } = outcome;
  for (const secret of secretsOf(destination)) reason = reason.replaceAll(secret, '(secret)');
  return { ...outcome, reason };
}
