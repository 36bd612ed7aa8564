/** Ends enrolments whose deadline has passed. */

import type { Logger } from 'pino';
import type { AuditBursts } from '#master';
import type { Enrolment } from './enrolment.ts';
import type { EnrolmentParts, EnrolmentTransitions } from './enrolment-transitions.ts';

/** Interval between two checks, in milliseconds. */
const checkIntervalMs = 2000;

export interface DeadlineParts extends Pick<EnrolmentParts, 'now'> {
  readonly repository: Pick<EnrolmentParts['repository'], 'all' | 'prune'>;
  readonly transitions: Pick<EnrolmentTransitions, 'exclusive' | 'fail' | 'retire'>;
  readonly bursts: Pick<AuditBursts, 'flushIfDue'>;
  /**
   * Whether this process ends expired enrolments. In a cluster, this is true on one member only.
   */
  readonly isActive: () => boolean;
  readonly log: Pick<Logger, 'error'>;
}

/** Checks every two seconds for expired enrolments, and ends them. */
export class EnrolmentDeadlines {
  readonly #parts: DeadlineParts;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();

  constructor(parts: DeadlineParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = setInterval(() => this.#next(), checkIntervalMs).unref();
  }

  /**
   * Ends all enrolments that have expired. If an enrolment cannot be ended, ends the others, and logs
   * the error. A later call retries.
   */
  async endExpired(): Promise<void> {
    const { repository, bursts, transitions, isActive, log } = this.#parts;
    repository.prune();
    bursts.flushIfDue();
    if (!isActive()) return;
    const failures: { readonly id: string; readonly error: unknown }[] = [];
    for (const enrolment of [...repository.all()]) {
      if (this.#endOf(enrolment) === undefined) continue;
      try {
        // The enrolment may have changed before this operation runs, so check it again.
        await transitions.exclusive(enrolment, async (current) => this.#end(current));
      } catch (error) {
        failures.push({ id: enrolment.id, error });
      }
    }
    const [first] = failures;
    if (first === undefined) return;
    // One line for each check, because the store may fail for all enrolments.
    log.error(
      { enrolment: first.id, failed: failures.length, err: first.error },
      'could not end expired enrolments; retrying',
    );
  }

  async #end(enrolment: Enrolment | undefined): Promise<void> {
    if (enrolment === undefined) return;
    const { transitions } = this.#parts;
    const end = this.#endOf(enrolment);
    if (end === undefined) return;
    if (end === 'retire') await transitions.retire(enrolment.id);
    else await transitions.fail(enrolment, end.reason);
  }

  /**
   * Returns how an enrolment must end now. `retire`: its key has expired, so the key must be
   * retired. An object: the enrolment must be marked as failed for this reason. `undefined`: the
   * enrolment continues.
   */
  #endOf(enrolment: Enrolment): 'retire' | { readonly reason: string } | undefined {
    const { state, deadline = Infinity, keyExpiresAt = Infinity } = enrolment;
    const time = this.#parts.now();
    if (state === 'open' && time >= deadline) {
      return { reason: 'no machine used the ticket before it expired' };
    }
    if (state === 'accepted' && time >= deadline) {
      return { reason: 'the minion did not sign in before the deadline' };
    }
    const hasKey = state === 'accepted' || state === 'signed-in';
    return hasKey && time >= keyExpiresAt ? 'retire' : undefined;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#round;
  }

  /** Starts a check. If the previous check is still in progress, waits for its end first. */
  #next(): void {
    this.#round = this.#round
      .then(() => this.endExpired())
      .catch((error: unknown) => {
        // A later round retries.
        this.#parts.log.error({ err: error }, 'could not check for expired enrolments; retrying');
      });
  }
}
