/** Reports the progress of signals as events, log lines and trace spans, without their contents or destinations. */

import type { Logger } from 'pino';
import type { WireMap } from '#minion-protocol';
import type { Traces } from '../tracing.ts';
import type { HandleInfo } from './handles.ts';
import type { FullQuota } from './outbox-quotas.ts';
import type { OutboxRecord } from './outbox-records.ts';
import type { SignalProblem } from './signal.ts';

/** Follows signals through traces. */
export type SignalTraces = Pick<Traces, 'signalAccepted' | 'signalOver'>;

/** Why a permitted signal does not go to its handle. */
export type SignalRefusal = FullQuota | SignalProblem | 'expired' | 'member' | 'unregistered';

/** Below `saltbridge/bridge/`, where minions cannot emit anything. */
const signalTags = {
  accepted: 'signal/accepted',
  held: 'signal/held',
  refused: 'signal/refused',
  delivered: 'signal/delivered',
  failed: 'signal/failed',
};

/** Why a signal is refused, as people read it. */
export const refusalTexts: Readonly<Record<SignalRefusal, string>> = {
  bytes: 'it is larger than signal_bytes',
  room: 'the outbox is full',
  'data-no-json': 'data is no JSON',
  empty:
    'it has no data, or data that Salt cannot read; send {"status": "SUCCESS"}, or register the handle with --empty-is-success',
  'field-unknown': 'it has other fields than status, reason and data',
  'not-a-map': 'it is no map',
  'reason-no-text': 'reason is no text',
  'status-unknown': 'status is neither SUCCESS nor FAILURE',
  unreadable: 'its data is neither YAML nor JSON',
  entries: 'the outbox is full',
  expired: 'the handle has expired',
  member: 'the handle is not for this member',
  held: 'too many signals of this minion wait for handles that are not registered',
  perMinion: 'too many signals of this minion wait',
  perOwner: 'too many signals wait for the handles of this owner',
  perStack: 'too many signals for this stack wait',
  unregistered: 'no handle of this alias is registered for this minion',
};

/** Tells what becomes of signals: never what was signalled, or where to. */
export class SignalReporter {
  readonly #fire: (tag: string, data: WireMap) => void;
  readonly #log: Logger;
  readonly #traces: SignalTraces | undefined;
  /** How many are over since the start. */
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

  /** @param jid - the job that the signal was fired in, by the minion's own word */
  accepted(minion: string, handle: string, signal: string, jid: string | undefined): void {
    this.#fire(signalTags.accepted, { id: minion, handle, signal });
    this.#traces?.signalAccepted(minion, signal, jid);
  }

  /** @param jid - as of {@link accepted} */
  held(minion: string, handle: string, signal: string, jid: string | undefined): void {
    this.#fire(signalTags.held, { id: minion, handle, signal });
    const text = 'no handle is registered for the signal; it is held until one is';
    this.#log.warn({ minion, handle, signal }, text);
    this.#traces?.signalAccepted(minion, signal, jid);
  }

  refused(minion: string, handle: string, refusal: SignalRefusal): void {
    const reason = refusalTexts[refusal];
    this.#fire(signalTags.refused, { id: minion, handle, reason });
    this.#log.warn({ minion, handle, code: refusal, reason }, 'signal refused');
  }

  /** An event that a minion fired and that is sent to Heat as a failure. */
  unreadable(minion: string, handle: string, problem: SignalProblem): void {
    const reason = refusalTexts[problem];
    this.#fire(signalTags.refused, { id: minion, handle, reason });
    const text = 'event of a minion was not understood';
    this.#log.warn({ minion, handle, code: problem, reason }, text);
  }

  delivered(record: OutboxRecord, { transport, origin }: HandleInfo): void {
    const { id: signal, alias: handle, minion } = record;
    this.over.delivered += 1;
    this.#fire(signalTags.delivered, { id: minion, handle, signal });
    this.#log.info({ minion, handle, signal, transport, origin }, 'signal delivered');
    this.#traces?.signalOver(record, undefined);
  }

  /** @param info - of its handle; `undefined`: there is none */
  givenUp(record: OutboxRecord, info: HandleInfo | undefined, reason: string): void {
    const { id: signal, alias: handle, minion } = record;
    const place = info === undefined ? {} : { transport: info.transport, origin: info.origin };
    this.over.dead += 1;
    this.#fire(signalTags.failed, { id: minion, handle, signal, reason });
    this.#log.warn({ minion, handle, signal, reason, ...place }, 'signal given up');
    this.#traces?.signalOver(record, reason);
  }
}
