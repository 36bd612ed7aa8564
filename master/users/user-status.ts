/** Revalidates users with the back ends [THREATS C-35]. */

import { RecentAnswers } from '#runtime';
import type { KnownUser, LoginBackend, Standing } from './backend.ts';

/** How long an answer holds; with the round of {@link TokenWatch} it is well within a minute. */
const maxAgeMs = 30_000;

/** Users that are remembered. */
const maxUsers = 10_000;

/** How long a back end has. */
const standingTimeoutMs = 10_000;

/** The latest answers of back ends. One question about a user is asked at a time. */
export class UserStatusChecks {
  readonly #answers: RecentAnswers<Standing>;

  /** @param monotonic milliseconds */
  constructor(monotonic: () => number) {
    this.#answers = new RecentAnswers({ maxAgeMs, maxAnswers: maxUsers, monotonic });
  }

  /** What was just found out by a log-in. */
  note(backend: LoginBackend, user: KnownUser): void {
    this.#answers.note(keyOf(backend, user), { state: 'valid', groups: user.groups });
  }

  /**
   * What the back end says, half a minute ago at most.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE; the next call asks again
   */
  async of(backend: LoginBackend, user: KnownUser): Promise<Standing> {
    const { standingOf } = backend;
    if (standingOf === undefined) return { state: 'valid', groups: user.groups };
    return this.#answers.of(keyOf(backend, user), () =>
      standingOf(user, AbortSignal.timeout(standingTimeoutMs)),
    );
  }

  /** Forgets all: the back ends have changed. */
  clear(): void {
    this.#answers.clear();
  }
}

function keyOf(backend: LoginBackend, { user }: KnownUser): string {
  return `${backend.name} ${user}`;
}
