/** Counts what was refused, delayed or dropped, by reason. The set of reasons is ours, not a peer's. */
export class RequestCounters {
  readonly #counts = new Map<string, number>();

  count(reason: string): void {
    this.#counts.set(reason, (this.#counts.get(reason) ?? 0) + 1);
  }

  /** What was counted since the start. */
  snapshot(): Record<string, number> {
    return Object.fromEntries(this.#counts);
  }
}
