/** Notifies the holders of connections when a token ends [THREATS A-05]. */

const roundMs = 1000;

/** Something that is open for a token. */
export interface Watched {
  /** Fires when the token ends. */
  readonly ended: AbortSignal;
  /** It is closed; call it in any case. */
  stop(): void;
}

/** Looks every second at the tokens that something is open for, and at no others. */
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

  /** These tokens have ended. */
  end(hashes: readonly string[]): void {
    for (const hash of hashes) {
      for (const controller of this.#watched.get(hash) ?? []) controller.abort();
      this.#watched.delete(hash);
    }
  }

  /** Looks at all of them once; never fails. */
  async round(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      await Promise.all(
        [...this.#watched.keys()].map(async (hash) => {
          // What cannot be found out counts as over: a user may have been disabled.
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
