/** Maximum number of ends that wait until this member has applied them. */
const maxWaiting = 64;

/**
 * Time for which this member may lack entries of the log. It starts anew with each known end of the
 * log that this member has applied. It therefore grows for every cause: no connection, no consumer,
 * a full disk, or a blocked thread.
 */
export class LogEndWatch {
  /** Time at which this member had certainly applied the whole log, by `performance.now()`. */
  #completeAt = performance.now();
  /** Ends that are not applied yet, the oldest first. */
  readonly #waiting: { readonly position: number; readonly at: number }[] = [];

  /** Time since this member had certainly applied the whole log, in milliseconds. */
  get uncertainMs(): number {
    return performance.now() - this.#completeAt;
  }

  /**
   * Notes an end of the log.
   * @param at - time of the request that reported it, by `performance.now()`
   * @param applied - position up to which this member has applied the log
   */
  note(position: number, at: number, applied: number): void {
    // The older ends are kept, because they are applied first.
    if (this.#waiting.length >= maxWaiting) this.#waiting.pop();
    this.#waiting.push({ position, at });
    this.applied(applied);
  }

  /** Notes the position up to which this member has applied the log. */
  applied(position: number): void {
    for (let [oldest] = this.#waiting; oldest !== undefined; [oldest] = this.#waiting) {
      if (oldest.position > position) return;
      this.#completeAt = oldest.at;
      this.#waiting.shift();
    }
  }
}
