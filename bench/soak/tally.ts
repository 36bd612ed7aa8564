import type { SoakCounts } from './orders.ts';

/** How the answer to a request turned out. */
export type Answer = 'good' | 'refused' | 'wrong';

/** Counts every request that a swarm sends, and what became of it. */
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

  /** Requests without an answer whose connection has not ended. */
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

  /** A request lost its connection. @param isOwnDoing whether the swarm ended it */
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
