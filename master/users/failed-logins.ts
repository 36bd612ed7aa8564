/** Counts failed log-ins by user and source, so that others are not delayed [THREATS A-04]. */

/** How {@link FailedLogins} counts. */
export interface FailedLoginsOptions {
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
  /** Failures of a user from a source in `windowMs`. Default 5. */
  readonly max?: number;
  /** Default 60,000. */
  readonly windowMs?: number;
  /** Users that are told apart for each source; default 1000. */
  readonly maxUsers?: number;
  /** Sources that are told apart; default 10,000. */
  readonly maxSources?: number;
}

/**
 * The attempts of a user from a source that have not succeeded. Memory is bounded for each source,
 * so that nobody makes another's failures forgotten by failing elsewhere.
 */
export class FailedLogins {
  readonly #now: () => number;
  readonly #max: number;
  readonly #windowMs: number;
  readonly #maxUsers: number;
  readonly #maxSources: number;
  /** By source, then by user: when the attempts were begun. */
  readonly #attempts = new Map<string, Map<string, number[]>>();

  constructor(options: FailedLoginsOptions) {
    this.#now = options.now;
    this.#max = options.max ?? 5;
    this.#windowMs = options.windowMs ?? 60_000;
    this.#maxUsers = options.maxUsers ?? 1000;
    this.#maxSources = options.maxSources ?? 10_000;
  }

  /**
   * Counts an attempt before it is made, so that many at once are no way around.
   * @returns takes it back, because it was no failure; `undefined`: it may not be made
   */
  begin(user: string, source: string): (() => void) | undefined {
    const users = this.#usersOf(source);
    const since = this.#now() - this.#windowMs;
    const recent = (users.get(user) ?? []).filter((at) => at > since);
    if (recent.length >= this.#max) return undefined;
    const at = this.#now();
    recent.push(at);
    users.delete(user);
    if (users.size >= this.#maxUsers) deleteOldest(users);
    users.set(user, recent);
    return () => {
      const index = recent.indexOf(at);
      if (index >= 0) recent.splice(index, 1);
    };
  }

  #usersOf(source: string): Map<string, number[]> {
    const known = this.#attempts.get(source);
    if (known !== undefined) {
      // The last to be heard of is the last to be forgotten.
      this.#attempts.delete(source);
      this.#attempts.set(source, known);
      return known;
    }
    if (this.#attempts.size >= this.#maxSources) deleteOldest(this.#attempts);
    const users = new Map<string, number[]>();
    this.#attempts.set(source, users);
    return users;
  }
}

function deleteOldest(map: Map<string, unknown>): void {
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}
