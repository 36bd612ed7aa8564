/** Compares events with the patterns of the users' event streams. */

import type { UserSubject } from '#acl';
import { LimitExceeded, TokenBuckets, unlimitedSteps, WorkBudget } from '#runtime';
import type { EventsRequest } from '../api/index.ts';
import { tagTestOf } from '../events/index.ts';
import { userLimits } from './limits.ts';

/**
 * Limits the work for the patterns of each user's streams. A user may have many streams with many
 * patterns, and each event is compared with all of them.
 */
export class StreamPatterns {
  readonly #steps: TokenBuckets;

  /** @param now - monotonic clock, in milliseconds. Default: the clock of the process */
  constructor(now?: () => number) {
    this.#steps = new TokenBuckets(userLimits.patternSteps, now);
  }

  /**
   * Returns a function that tests whether a tag matches one of the patterns. It throws
   * LimitExceeded if the streams of the user have caused too much work.
   * @throws WorkLimitExceeded if there are too many patterns, or if they are too long;
   * LimitExceeded
   */
  testOf(
    match: NonNullable<EventsRequest['match']>,
    { name, eauth = '' }: UserSubject,
  ): (tag: string) => boolean {
    const owner = JSON.stringify([name, eauth]);
    this.#require(owner);
    const meter = new WorkBudget(unlimitedSteps);
    const isMeant = tagTestOf(match, meter);
    this.#steps.take(owner, meter.steps);
    return (tag) => {
      this.#require(owner);
      const before = meter.steps;
      const result = isMeant(tag);
      this.#steps.take(owner, meter.steps - before);
      return result;
    };
  }

  #require(owner: string): void {
    if (this.#steps.has(owner)) return;
    throw new LimitExceeded(userLimits.patternSteps);
  }
}
