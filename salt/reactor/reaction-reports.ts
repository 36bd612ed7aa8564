/**
 * Reports reactions that did not run. Each of these reactions is counted. The first one of a burst
 * is also logged and published as an event.
 */

import type { Logger } from 'pino';
import { type Events, type MasterContext, tags } from '#master';
import type { WireMap } from '#minion-protocol';
import { TokenBuckets } from '#runtime';
import { saltLimits } from '../limits.ts';

export interface ReactionReportOptions {
  readonly bus: Events['bus'];
  readonly counters: MasterContext['counters'];
  readonly log: Logger;
  readonly now: () => number;
}

/**
 * Reports calls of reactions that were not made. Within a minute, reports only the first call for
 * each reaction and reason, and counts the others.
 */
export class ReactionReports {
  readonly #options: ReactionReportOptions;
  readonly #bursts: TokenBuckets;

  constructor(options: ReactionReportOptions) {
    this.#options = options;
    this.#bursts = new TokenBuckets(saltLimits.reactionReports, options.now);
  }

  /** Increments the counter `reaction-<reason>` without logging or publishing anything. */
  count(reason: string): void {
    this.#options.counters.count(`reaction-${reason}`);
  }

  /** Reports an event that matches a reaction but triggers no run. */
  dropped(reaction: string, reason: string, fields: WireMap): void {
    this.#report('dropped', reaction, reason, fields);
  }

  /** Reports a run that the access rules do not permit. */
  denied(reaction: string, jid: string, reason: string): void {
    this.#report('denied', reaction, 'denied', { jid, why: reason });
  }

  #report(kind: 'dropped' | 'denied', reaction: string, reason: string, fields: WireMap): void {
    const { bus, log } = this.#options;
    this.count(reason);
    if (!this.#bursts.tryTake(JSON.stringify([reaction, reason]))) return;
    log.warn({ reaction, reason, ...fields }, `reaction ${kind}`);
    bus.fire(tags.reaction(kind), { reaction, reason, ...fields });
  }
}
