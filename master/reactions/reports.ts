/** Tells what reactions did not do: counted each time, logged and told once a burst. */
import type { Logger } from 'pino';
import type { WireMap } from '../../minion-protocol/index.ts';
import type { EventBus } from '../events/bus.ts';
import { tags } from '../events/tags.ts';
import type { RequestCounters } from '../limits/counters.ts';
import { TokenBuckets } from '../limits/token-bucket.ts';

/** What {@link ReactionReports} needs. */
export interface ReactionReportOptions {
  readonly bus: EventBus;
  readonly counters: RequestCounters;
  readonly log: Logger;
  readonly now: () => number;
}

/** See above. A burst is a minute, for each reaction and reason. */
export class ReactionReports {
  readonly #options: ReactionReportOptions;
  readonly #bursts: TokenBuckets;

  constructor(options: ReactionReportOptions) {
    this.#options = options;
    this.#bursts = new TokenBuckets({ perSecond: 1 / 60, burst: 1 }, options.now);
  }

  /** Counts what needs nobody's attention. */
  count(reason: string): void {
    this.#options.counters.count(`reaction-${reason}`);
  }

  /** An event was wanted, and nothing follows from it. */
  dropped(reaction: string, reason: string, fields: WireMap): void {
    this.#tell('dropped', reaction, reason, fields);
  }

  /** A run that no rule permits. */
  denied(reaction: string, jid: string, reason: string): void {
    this.#tell('denied', reaction, 'denied', { jid, why: reason });
  }

  #tell(kind: 'dropped' | 'denied', reaction: string, reason: string, fields: WireMap): void {
    const { bus, log } = this.#options;
    this.count(reason);
    if (!this.#bursts.tryTake(JSON.stringify([reaction, reason]))) return;
    log.warn({ reaction, reason, ...fields }, `reaction ${kind}`);
    bus.fire(tags.reaction(kind), { reaction, reason, ...fields });
  }
}
