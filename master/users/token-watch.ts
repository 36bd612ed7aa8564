const roundMs = 1000;

/** Handle of a token that is being watched while it is in use. */
export interface Watched {
  /** Signal that is aborted when the token becomes invalid. */
  readonly ended: AbortSignal;
  /** Stops watching the token. Call this method when the token is no longer used. */
  stop(): void;
}

/**
 * Checks every second whether the tokens in use are still valid. When a token becomes invalid, its
 * {@link Watched.ended} signals are aborted [THREATS A-05].
 */
export class TokenWatch {
  readonly #isValid: (hash: string) => Promise<boolean>;
  readonly #watched = new Map<string, Set<AbortController>>();
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;

  constructor(isValid: (hash: string) => Promise<boolean>) {
    this.#isValid = isValid;
  }

  watch(hash: string): Watched {
    const controller = new AbortController();
    const same = this.#watched.get(hash) ?? new Set();
    this.#watched.set(hash, same.add(controller));
    this.#timer ??= setInterval(() => void this.round(), roundMs).unref();
    return {
      ended: controller.signal,
      stop: () => {
        same.delete(controller);
        if (same.size === 0 && this.#watched.get(hash) === same) this.#watched.delete(hash);
        if (this.#watched.size === 0) this.close();
      },
    };
  }

  /** Aborts the signals of tokens that have become invalid. */
  end(hashes: readonly string[]): void {
    for (const hash of hashes) {
      for (const controller of this.#watched.get(hash) ?? []) controller.abort();
      this.#watched.delete(hash);
    }
  }

  /** Checks all watched tokens once. Never rejects. */
  async round(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      await Promise.all(
        [...this.#watched.keys()].map(async (hash) => {
          // If the check fails, the token is treated as ended, because its user may have been
          // disabled.
          if (!(await this.#isValid(hash).catch(() => false))) this.end([hash]);
        }),
      );
    } finally {
      this.#isLooking = false;
    }
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
