/**
 * Maximum number of stored reports about the end of the log. A report is stored until this member
 * has applied the log up to the reported position.
 */
const maxWaiting = 64;

/**
 * Measures for how long it is uncertain whether this member has all entries of the log. The time
 * restarts at 0 when the member has applied all entries up to a reported end of the log. Until then
 * it grows, for example without a connection, with a full disk, or while the thread is blocked.
 */
export class LogEndWatch {
  /**
   * Latest time at which this member is known to have applied the whole log, by
   * `performance.now()`.
   */
  #completeAt = performance.now();
  /**
   * Positions that were reported as the end of the log, and that this member has not applied yet.
   * The oldest report is first.
   */
  readonly #waiting: { readonly position: number; readonly at: number }[] = [];

  /**
   * Time since the latest moment at which this member had certainly applied the whole log, in
   * milliseconds.
   */
  get uncertainMs(): number {
    return performance.now() - this.#completeAt;
  }

  /**
   * Records a position that was reported as the end of the log.
   * @param at - time of the request that reported the position, by `performance.now()`
   * @param applied - position up to which this member has applied the log
   */
  note(position: number, at: number, applied: number): void {
    // If the list is full, the new end replaces the last stored one, because this member applies
    // the older ends first.
    if (this.#waiting.length >= maxWaiting) this.#waiting.pop();
    this.#waiting.push({ position, at });
    this.applied(applied);
  }

  /** Records the position up to which this member has applied the log. */
  applied(position: number): void {
    for (let [oldest] = this.#waiting; oldest !== undefined; [oldest] = this.#waiting) {
      if (oldest.position > position) return;
      this.#completeAt = oldest.at;
      this.#waiting.shift();
    }
  }
}
