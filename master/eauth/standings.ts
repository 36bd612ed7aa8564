/** Whether users who logged in may still: asked of the back ends now and then [THREATS C-35]. */
import type { KnownUser, LoginBackend, Standing } from './backend.ts';

/** How long an answer holds; with the round of {@link TokenWatch} it is well within a minute. */
const maxAgeMs = 30_000;

/** Users that are remembered. */
const maxUsers = 10_000;

/** How long a back end has. */
const timeoutMs = 10_000;

interface Answer {
  readonly at: number;
  readonly standing: Promise<Standing>;
}

/** The latest answers of back ends. One question about a user is asked at a time. */
export class Standings {
  readonly #monotonic: () => number;
  readonly #answers = new Map<string, Answer>();

  /** @param monotonic milliseconds */
  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** What was just found out by a log-in. */
  note(backend: LoginBackend, user: KnownUser): void {
    this.#remember(keyOf(backend, user), Promise.resolve({ state: 'valid', groups: user.groups }));
  }

  /**
   * What the back end says, half a minute ago at most.
   * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE; the next call asks again
   */
  async of(backend: LoginBackend, user: KnownUser): Promise<Standing> {
    if (backend.standingOf === undefined) return { state: 'valid', groups: user.groups };
    const key = keyOf(backend, user);
    const known = this.#answers.get(key);
    if (known !== undefined && this.#monotonic() - known.at < maxAgeMs) return known.standing;
    const standing = backend.standingOf(user, AbortSignal.timeout(timeoutMs));
    this.#remember(key, standing);
    try {
      return await standing;
    } catch (error) {
      this.#answers.delete(key);
      throw error;
    }
  }

  /** Forgets all: the back ends have changed. */
  clear(): void {
    this.#answers.clear();
  }

  #remember(key: string, standing: Promise<Standing>): void {
    this.#answers.delete(key);
    const [oldest] = this.#answers.size >= maxUsers ? this.#answers.keys() : [];
    if (oldest !== undefined) this.#answers.delete(oldest);
    this.#answers.set(key, { at: this.#monotonic(), standing });
  }
}

function keyOf(backend: LoginBackend, { user }: KnownUser): string {
  return `${backend.name} ${user}`;
}
