/** Brings the signals of the outbox to where they belong: those of a handle one after the other. */
import type { Logger } from 'pino';
import { KeyedSemaphore } from '../../runtime/index.ts';
import { originOf } from '../outgoing/endpoints.ts';
import type { Ask } from '../outgoing/exchange.ts';
import { type BackOffOptions, backOffMs } from './back-off.ts';
import { type Destination, secretsOf } from './destination.ts';
import type { HandleInfo } from './handle.ts';
import type { Handles } from './handles.ts';
import type { Outbox, Pending } from './outbox.ts';
import type { OutboxRecord } from './outbox-record.ts';
import type { Outcome } from './outcome.ts';
import { pause } from './pause.ts';
import { signalId } from './signal.ts';
import type { Delivery } from './transports/delivery.ts';

/** What {@link Courier} needs. */
export interface CourierOptions {
  readonly handles: Pick<Handles, 'destinationOf' | 'find'>;
  readonly outbox: Outbox;
  readonly ask: Ask;
  readonly deliver: (delivery: Delivery) => Promise<Outcome>;
  readonly backOff: BackOffOptions;
  /** Milliseconds before a service that works is asked again whether it is our turn. */
  readonly turnMs: number;
  /** Milliseconds between two signals under one id where the service stores after it answers. */
  readonly sameIdMs: number;
  /** Exchanges at a time with one service. */
  readonly perEndpoint: number;
  readonly closing: AbortSignal;
  readonly now: () => number;
  readonly random: () => number;
  readonly log: Logger;
  /** Told of each signal that is over; must not throw. */
  readonly onOver: (record: OutboxRecord, handle: HandleInfo | undefined, reason?: string) => void;
}

/** The signals of one handle. */
interface Lane {
  readonly handle: string;
  readonly queue: Pending[];
  /** The one that is delivered now. */
  current: Pending | undefined;
  failures: number;
  reason: string | undefined;
  isSending: boolean;
  /** Ends a pause early. */
  wake: AbortController;
  /** Until when the next signal under an id waits; by the id under which Heat counts. */
  readonly resting: Map<string, number>;
  /** Set while all that is queued rests; ends the rest. */
  restOver: AbortController | undefined;
}

/** See above. */
export class Courier {
  readonly #options: CourierOptions;
  /** By the id of the handle. */
  readonly #lanes = new Map<string, Lane>();
  readonly #endpoints: KeyedSemaphore;
  readonly #work = new Set<Promise<void>>();

  constructor(options: CourierOptions) {
    this.#options = options;
    this.#endpoints = new KeyedSemaphore(options.perEndpoint);
  }

  /** How it is with a signal that is not over. */
  stateOf({ id, handle }: Pending): {
    readonly state: 'held' | 'sending' | 'waiting';
    readonly failures: number;
    readonly reason: string | undefined;
  } {
    if (handle === undefined) return { state: 'held', failures: 0, reason: undefined };
    const lane = this.#lanes.get(handle);
    if (lane === undefined || lane.current?.id !== id) {
      return { state: 'waiting', failures: 0, reason: undefined };
    }
    const { failures, reason, isSending } = lane;
    return { state: isSending ? 'sending' : 'waiting', failures, reason };
  }

  /**
   * Tries the next signal of a handle now: it was changed or removed.
   * @param handle - its id
   */
  wake(handle: string): void {
    const lane = this.#lanes.get(handle);
    lane?.wake.abort();
    lane?.restOver?.abort();
  }

  /** Waits for what is under way, which the closing signal ends. */
  async close(): Promise<void> {
    await Promise.all(this.#work);
  }

  /**
   * Delivers a signal behind the others of its handle.
   * @param handle - its id
   */
  add(pending: Pending, handle: string): void {
    const known = this.#lanes.get(handle);
    if (known !== undefined) {
      known.queue.push(pending);
      if (!known.resting.has(signalId(pending.minion, pending.member))) known.restOver?.abort();
      return;
    }
    const lane: Lane = {
      handle,
      queue: [pending],
      current: undefined,
      failures: 0,
      reason: undefined,
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
  async #run(alias: string, lane: Lane): Promise<void> {
    const { closing, log } = this.#options;
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
  #nextOf({ current, queue, resting }: Lane): Pending | undefined {
    if (current !== undefined) return current;
    const now = this.#options.now();
    for (const [id, until] of resting) if (until <= now) resting.delete(id);
    if (resting.size === 0) return queue[0];
    return queue.find(({ minion, member }) => !resting.has(signalId(minion, member)));
  }

  /** Until the first id may be used again, or another signal comes. */
  async #rest(lane: Lane): Promise<void> {
    const { closing, now } = this.#options;
    lane.restOver = new AbortController();
    await pause(Math.min(...lane.resting.values()) - now(), closing, lane.restOver.signal);
    lane.restOver = undefined;
  }

  /** @returns whether the signal is over; if not, as much time has passed as there must */
  async #isOver(pending: Pending, lane: Lane): Promise<boolean> {
    const { handles, outbox, now, closing, turnMs } = this.#options;
    const record = await outbox.read(pending);
    if (record === undefined) return true;
    const handle = handles.find(lane.handle);
    if (handle === undefined) {
      return this.#bury(pending, record, undefined, 'the handle was removed');
    }
    if (handle.expiresAt <= now()) {
      const last = lane.reason === undefined ? '' : `; last: ${lane.reason}`;
      return this.#bury(pending, record, handle, `the handle has expired${last}`);
    }
    const destination = handles.destinationOf(lane.handle);
    const outcome = await this.#try(record, handle, destination, lane);
    if (outcome.kind === 'delivered') {
      const { sameIdMs } = this.#options;
      if (sameIdMs > 0 && storesLater(destination)) {
        lane.resting.set(signalId(record.minion, record.member), now() + sameIdMs);
      }
      await outbox.remove(pending);
      this.#options.onOver(record, handle);
      return true;
    }
    if (outcome.kind === 'final') return this.#bury(pending, record, handle, outcome.reason);
    if (closing.aborted) return false;
    lane.reason = outcome.reason;
    if (outcome.isTurn !== true) lane.failures += 1;
    const wait = outcome.isTurn === true ? turnMs : this.#backOff(lane);
    await this.#pause(lane, Math.min(wait, handle.expiresAt - now()));
    return false;
  }

  async #bury(
    pending: Pending,
    record: OutboxRecord,
    handle: HandleInfo | undefined,
    reason: string,
  ): Promise<true> {
    await this.#options.outbox.bury(pending, record, reason);
    this.#options.onOver(record, handle, reason);
    return true;
  }

  async #try(
    record: OutboxRecord,
    { expiresAt }: HandleInfo,
    destination: Destination,
    lane: Lane,
  ): Promise<Outcome> {
    const { ask, deliver, closing, now } = this.#options;
    const { id: recordId, alias, minion, member, signal } = record;
    lane.isSending = true;
    try {
      const outcome = await deliver({
        destination,
        recordId,
        alias,
        minion,
        member,
        signalId: signalId(minion, member),
        signal,
        failures: lane.failures,
        expiresAt,
        now,
        ask: (request) => this.#endpoints.run(originOf(request.url), () => ask(request, closing)),
      });
      return withoutSecrets(outcome, destination);
    } finally {
      lane.isSending = false;
    }
  }

  #backOff({ failures }: Lane): number {
    const { backOff, random } = this.#options;
    return backOffMs(failures, backOff, random);
  }

  async #pause(lane: Lane, milliseconds: number): Promise<void> {
    lane.wake = new AbortController();
    const { closing } = this.#options;
    await pause(milliseconds, closing, lane.wake.signal);
  }
}

/** Heat's API answers these before its engine has stored the signal, which it may do in another order. */
function storesLater({ transport }: Destination): boolean {
  return transport === 'HEAT_SIGNAL' || transport === 'TOKEN_SIGNAL';
}

/** A service may repeat what it was asked with. */
function withoutSecrets(outcome: Outcome, destination: Destination): Outcome {
  if (outcome.kind === 'delivered') return outcome;
  let { reason } = outcome;
  // protection: talking-services
  for (const secret of secretsOf(destination)) reason = reason.replaceAll(secret, '(secret)');
  return { ...outcome, reason };
}
