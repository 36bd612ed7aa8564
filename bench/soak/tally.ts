import type { SoakCounts } from './orders.ts';

/** Result of a request that got a reply. */
export type Answer = 'good' | 'refused' | 'wrong';

/** Counts all requests that a swarm sends, and their results. */
export class Tally {
  #sent = 0;
  #answered = 0;
  #refused = 0;
  #wrong = 0;
  #left = 0;
  readonly #cut: Record<string, number> = {};
  #longestAnswerMs = 0;
  events = 0;
  signIns = 0;
  reconnects = 0;

  /** Number of requests that have no reply and whose connection is still open. */
  get waiting(): number {
    const cut = Object.values(this.#cut).reduce((sum, count) => sum + count, 0);
    return this.#sent - this.#answered - this.#left - cut;
  }

  sent(): void {
    this.#sent += 1;
  }

  answered(ms: number): void {
    this.#answered += 1;
    this.#longestAnswerMs = Math.max(this.#longestAnswerMs, ms);
  }

  judged(answer: Answer): void {
    if (answer === 'refused') this.#refused += 1;
    if (answer === 'wrong') this.#wrong += 1;
  }

  /**
   * Counts a request whose connection was lost.
   * @param isOwnDoing - whether the minion itself closed the connection
   */
  lost(id: string, isOwnDoing: boolean): void {
    if (isOwnDoing) this.#left += 1;
    else this.#cut[id] = (this.#cut[id] ?? 0) + 1;
  }

  counts(): SoakCounts {
    return {
      sent: this.#sent,
      answered: this.#answered,
      waiting: this.waiting,
      refused: this.#refused,
      wrong: this.#wrong,
      left: this.#left,
      cut: { ...this.#cut },
      events: this.events,
      signIns: this.signIns,
      reconnects: this.reconnects,
      longestAnswerMs: this.#longestAnswerMs,
    };
  }
}
