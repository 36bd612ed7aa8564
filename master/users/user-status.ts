import { RecentAnswers } from '#runtime';
import type { KnownUser, LoginBackend, Standing } from './backend.ts';
import { userLimits } from './limits.ts';

/**
 * Time for which a status is cached, in milliseconds. {@link TokenWatch} checks the tokens of
 * streams every second. With this time, the streams of a disabled user end within a minute.
 */
const maxAgeMs = 30_000;

/** Timeout of a backend's check whether a user is still valid, in milliseconds. */
const standingTimeoutMs = 10_000;

/**
 * Asks the backends whether users are still valid, and caches the results [THREATS C-35]. At most
 * one request per user is in progress.
 */
export class UserStatusChecks {
  readonly #answers: RecentAnswers<Standing>;

  /** @param monotonic - returns the time of a monotonic clock, in milliseconds */
  constructor(monotonic: () => number) {
    this.#answers = new RecentAnswers({ limit: userLimits.userStatus, maxAgeMs, monotonic });
  }

  /** Stores the status of a user who has just logged in. */
  note(backend: LoginBackend, user: KnownUser): void {
    this.#answers.note(keyOf(backend, user), { state: 'valid', groups: user.groups });
  }

  /**
   * Returns the status of a user, at most 30 seconds old. If the backend cannot check users, the
   * user counts as valid.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE. After this error, the next call asks the
   * backend again
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
