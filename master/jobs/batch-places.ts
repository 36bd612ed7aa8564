/** The places of a batch: how many minions may be at it at once. */

/** Who is at it, who has yet to be, and how many more may. */
export class Places {
  readonly #left: string[];
  readonly #active = new Set<string>();
  #free: number;

  constructor(minions: readonly string[], count: number) {
    this.#left = [...minions];
    this.#free = count;
  }

  /** Minions that nothing was sent to. */
  get left(): readonly string[] {
    return this.#left;
  }

  /** As many minions as there are free places, which are theirs from now on. */
  take(): string[] {
    const next = this.#left.splice(0, this.#free);
    this.#free -= next.length;
    for (const minion of next) this.#active.add(minion);
    return next;
  }

  /** These minions are done. @returns how many places they had */
  leave(minions: readonly string[]): number {
    return minions.filter((minion) => this.#active.delete(minion)).length;
  }

  /** Places may be taken again. */
  free(count: number): void {
    this.#free += count;
  }
}

/** Calls back after a time; gives the function that calls it off. */
export type StartTimer = (milliseconds: number, onEnd: () => void) => () => void;

/** Node's timers. */
export const startTimer: StartTimer = (milliseconds, onEnd) => {
  const timer = setTimeout(onEnd, milliseconds);
  return () => clearTimeout(timer);
};

/** Keeps places empty for a while after their minions are done (`--batch-wait`). */
export class Coolings {
  readonly #waitMs: number;
  readonly #onEnd: (count: number) => void;
  readonly #start: StartTimer;
  readonly #stops = new Set<() => void>();

  constructor(waitMs: number, onEnd: (count: number) => void, start: StartTimer) {
    this.#waitMs = waitMs;
    this.#onEnd = onEnd;
    this.#start = start;
  }

  add(count: number): void {
    if (count === 0) return;
    if (this.#waitMs === 0) {
      this.#onEnd(count);
      return;
    }
    const stop = this.#start(this.#waitMs, () => {
      this.#stops.delete(stop);
      this.#onEnd(count);
    });
    this.#stops.add(stop);
  }

  stop(): void {
    for (const stop of this.#stops) stop();
  }
}
