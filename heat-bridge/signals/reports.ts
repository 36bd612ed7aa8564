/** What becomes of signals, on the bus and in the log: never what was signalled, or where to. */
import type { Logger } from 'pino';
import type { WireMap } from '../../minion-protocol/index.ts';
import type { HandleInfo } from './handle.ts';
import type { SignalRefusal } from './intake.ts';
import type { OutboxRecord } from './outbox-record.ts';

/** Below `saltbridge/bridge/`, where minions cannot emit anything. */
const tags = {
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
  'field-unknown': 'it has other fields than status, reason and data',
  'not-a-map': 'it is no map',
  'reason-no-text': 'reason is no text',
  'status-unknown': 'status is neither SUCCESS nor FAILURE',
  entries: 'the outbox is full',
  expired: 'the handle has expired',
  member: 'the handle is not for this member',
  held: 'too many signals of this minion wait for handles that are not registered',
  perMinion: 'too many signals of this minion wait',
  perOwner: 'too many signals wait for the handles of this owner',
  perStack: 'too many signals for this stack wait',
  unregistered: 'no handle of this alias is registered for this minion',
};

/** See above. */
export class SignalReports {
  readonly #fire: (tag: string, data: WireMap) => void;
  readonly #log: Logger;

  constructor(fire: (tag: string, data: WireMap) => void, log: Logger) {
    this.#fire = fire;
    this.#log = log;
  }

  accepted(minion: string, handle: string, signal: string): void {
    this.#fire(tags.accepted, { id: minion, handle, signal });
  }

  held(minion: string, handle: string, signal: string): void {
    this.#fire(tags.held, { id: minion, handle, signal });
    this.#log.info({ minion, handle, signal }, 'signal held until its handle is registered');
  }

  refused(minion: string, handle: string, refusal: SignalRefusal): void {
    const reason = refusalTexts[refusal];
    this.#fire(tags.refused, { id: minion, handle, reason });
    this.#log.info({ minion, handle, code: refusal }, 'signal refused');
  }

  /** @param reason - why it was given up; `undefined`: it was delivered */
  over(
    { id: signal, alias: handle, minion }: OutboxRecord,
    info: HandleInfo | undefined,
    reason: string | undefined,
  ): void {
    const place = info === undefined ? {} : { transport: info.transport, origin: info.origin };
    if (reason === undefined) {
      this.#fire(tags.delivered, { id: minion, handle, signal });
      this.#log.info({ minion, handle, signal, ...place }, 'signal delivered');
    } else {
      this.#fire(tags.failed, { id: minion, handle, signal, reason });
      this.#log.warn({ minion, handle, signal, reason, ...place }, 'signal given up');
    }
  }
}
