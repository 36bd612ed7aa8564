/**
 * Reports the states of signals as events, log lines and trace spans. The reports do not contain
 * data or destinations of signals.
 */

import type { Logger } from 'pino';
import type { WireMap } from '#minion-protocol';
import type { Traces } from '../tracing.ts';
import type { HandleInfo } from './handles.ts';
import type { FullQuota } from './outbox-quotas.ts';
import type { OutboxRecord } from './outbox-records.ts';
import type { SignalProblem } from './signal.ts';

/** Functions that record trace spans of signals. */
export type SignalTraces = Pick<Traces, 'signalAccepted' | 'signalOver'>;

/** Reason why a signal is rejected although the policy permits it. */
export type SignalRefusal = FullQuota | SignalProblem | 'expired' | 'member' | 'unregistered';

/**
 * Tags of the events about signals, below `saltbridge/bridge/`. Minions cannot fire events with
 * these tags.
 */
const signalTags = {
  accepted: 'signal/accepted',
  held: 'signal/held',
  refused: 'signal/refused',
  delivered: 'signal/delivered',
  failed: 'signal/failed',
};

/** Texts for the reasons why signals are rejected. */
export const refusalTexts: Readonly<Record<SignalRefusal, string>> = {
  bytes: 'the signal is larger than the limit `signal_bytes`',
  room: 'the outbox is full',
  'data-no-json': 'the field `data` contains a value that JSON cannot represent',
  empty:
    'the event has no data, or data that Salt cannot read; send {"status": "SUCCESS"}, or register the handle with --empty-is-success',
  'field-unknown':
    'the signal has an unknown field; known fields are `status`, `reason` and `data`',
  'not-a-map': 'the data of the event is not a map',
  'reason-no-text': 'the field `reason` is not text',
  'status-unknown': 'the field `status` is neither SUCCESS nor FAILURE',
  unreadable: 'the data of the event is neither YAML nor JSON',
  entries: 'the outbox is full',
  expired: 'the handle has expired',
  member: 'the handle does not list this group member',
  held: 'too many signals of this minion are held for unregistered handles',
  perMinion: 'too many signals of this minion are pending',
  perOwner: 'too many signals are pending for the handles of this owner',
  perStack: 'too many signals are pending for this stack',
  unregistered: 'no handle with this alias is registered for this minion',
};

/**
 * Reports the states of signals as events, log lines and trace spans. The reports do not contain
 * data or destinations of signals.
 */
export class SignalReporter {
  readonly #fire: (tag: string, data: WireMap) => void;
  readonly #log: Logger;
  readonly #traces: SignalTraces | undefined;
  /** Numbers of signals that were delivered or failed permanently since the start. */
  readonly over = { delivered: 0, dead: 0 };

  constructor(
    fire: (tag: string, data: WireMap) => void,
    log: Logger,
    traces: SignalTraces | undefined,
  ) {
    this.#fire = fire;
    this.#log = log;
    this.#traces = traces;
  }

  /**
   * Reports an accepted signal.
   * @param jid - job that fired the signal, according to the minion
   */
  accepted(minion: string, handle: string, signal: string, jid: string | undefined): void {
    this.#fire(signalTags.accepted, { id: minion, handle, signal });
    this.#traces?.signalAccepted(minion, signal, jid);
  }

  /**
   * Reports a held signal.
   * @param jid - job that fired the signal, according to the minion
   */
  held(minion: string, handle: string, signal: string, jid: string | undefined): void {
    this.#fire(signalTags.held, { id: minion, handle, signal });
    const text = 'no handle is registered for a signal; holding the signal until one is registered';
    this.#log.warn({ minion, handle, signal }, text);
    this.#traces?.signalAccepted(minion, signal, jid);
  }

  refused(minion: string, handle: string, refusal: SignalRefusal): void {
    const reason = refusalTexts[refusal];
    this.#fire(signalTags.refused, { id: minion, handle, reason });
    this.#log.warn({ minion, handle, code: refusal, reason }, 'rejected a signal');
  }

  /** Reports that an event of a minion is unreadable. Heat receives a failure for it. */
  unreadable(minion: string, handle: string, problem: SignalProblem): void {
    const reason = refusalTexts[problem];
    this.#fire(signalTags.refused, { id: minion, handle, reason });
    const text =
      'the event of a minion for a handle is not a valid signal; sending FAILURE to Heat';
    this.#log.warn({ minion, handle, code: problem, reason }, text);
  }

  delivered(record: OutboxRecord, { transport, origin }: HandleInfo): void {
    const { id: signal, alias: handle, minion } = record;
    this.over.delivered += 1;
    this.#fire(signalTags.delivered, { id: minion, handle, signal });
    this.#log.info({ minion, handle, signal, transport, origin }, 'signal delivered');
    this.#traces?.signalOver(record, undefined);
  }

  /**
   * Reports a signal that has failed permanently.
   * @param info - handle of the signal, or `undefined` if there is none
   */
  givenUp(record: OutboxRecord, info: HandleInfo | undefined, reason: string): void {
    const { id: signal, alias: handle, minion } = record;
    const place = info === undefined ? {} : { transport: info.transport, origin: info.origin };
    this.over.dead += 1;
    this.#fire(signalTags.failed, { id: minion, handle, signal, reason });
    this.#log.warn(
      { minion, handle, signal, reason, ...place },
      'a signal was rejected permanently or has expired; see `saltbridge bridge outbox list --dead`',
    );
    this.#traces?.signalOver(record, reason);
  }
}
