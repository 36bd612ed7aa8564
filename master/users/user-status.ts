import { RecentAnswers } from '#runtime';
import type { KnownUser, LoginBackend, Standing } from './backend.ts';
import { userLimits } from './limits.ts';

/**
 * Validity of a cached status, in milliseconds. Together with the interval of {@link TokenWatch} it
 * stays well below a minute.
 */
const maxAgeMs = 30_000;

/** Timeout of a backend, in milliseconds. */
const standingTimeoutMs = 10_000;

/**
 * Revalidates users with their backends and caches the results [THREATS C-35]. Only one request per
 * user runs at a time.
 */
export class UserStatusChecks {
  readonly #answers: RecentAnswers<Standing>;

  /** @param monotonic monotonic clock, in milliseconds */
  constructor(monotonic: () => number) {
    this.#answers = new RecentAnswers({ limit: userLimits.userStatus, maxAgeMs, monotonic });
  }

  /** Stores the status that a log-in has just established. */
  note(backend: LoginBackend, user: KnownUser): void {
    this.#answers.note(keyOf(backend, user), { state: 'valid', groups: user.groups });
  }

  /**
   * Returns the user's status, at most 30 seconds old.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE; the next call asks again
   */
  async of(backend: LoginBackend, user: KnownUser): Promise<Standing> {
    const { standingOf } = backend;
    if (standingOf === undefined) return { state: 'valid', groups: user.groups };
    return this.#answers.of(keyOf(backend, user), () =>
      standingOf(user, AbortSignal.timeout(standingTimeoutMs)),
    );
  }

  /** Clears the cache, because the backends have changed. */
  clear(): void {
    this.#answers.clear();
  }
}

function keyOf(backend: LoginBackend, { user }: KnownUser): string {
  return `${backend.name} ${user}`;
}
