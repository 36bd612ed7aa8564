/** Options of {@link FailedLogins}. */
export interface FailedLoginsOptions {
  /** Returns the time of a monotonic clock, in milliseconds. */
  readonly now: () => number;
  /** Maximum number of failed log-ins of a user from one source within `windowMs`. Default: 5. */
  readonly max?: number;
  /** Length of the period in which failures are counted, in milliseconds. Default: 60,000. */
  readonly windowMs?: number;
  /** Maximum number of users that are counted for each source. Default: 1000. */
  readonly maxUsers?: number;
  /** Maximum number of sources that are counted. Default: 10,000. */
  readonly maxSources?: number;
}

/**
 * Limits failed log-ins by user and source, so that an attack on a user does not lock out other
 * users or the user at other addresses [THREATS A-04]. Memory is limited per source, so that
 * failures from one source cannot evict those of another.
 */
export class FailedLogins {
  readonly #now: () => number;
  readonly #max: number;
  readonly #windowMs: number;
  readonly #maxUsers: number;
  readonly #maxSources: number;
  /** Times of the counted attempts, by source and user. */
  readonly #attempts = new Map<string, Map<string, number[]>>();

  constructor(options: FailedLoginsOptions) {
    this.#now = options.now;
    this.#max = options.max ?? 5;
    this.#windowMs = options.windowMs ?? 60_000;
    this.#maxUsers = options.maxUsers ?? 1000;
    this.#maxSources = options.maxSources ?? 10_000;
  }

  /**
   * Counts an attempt before it is made, so that concurrent attempts cannot bypass the limit.
   * @returns a function to call if the attempt did not fail; it removes the attempt from the count.
   * `undefined` if the limit is reached
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
      // The source is inserted again as the last one, because the first source is evicted first.
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
