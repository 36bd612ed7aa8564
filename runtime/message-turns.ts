import type { Limit } from './limits.ts';

/** A connection with received bytes. */
export interface TurnTaker {
  /**
   * Handles at most as many received messages as {@link MessageTurns.allowance} returns. Reports
   * their number with {@link MessageTurns.spend}. If bytes are left, requests another turn with
   * {@link MessageTurns.wait}.
   */
  takeTurn(): void;
}

/**
 * Limits the number of messages that a listener handles for one owner in one turn of the event
 * loop. One read from a socket may contain thousands of small messages. Messages beyond the limit
 * wait for the next turn, so that other connections and timers are served in between.
 */
export class MessageTurns {
  readonly #perOwner: number;
  readonly #total: number;
  /** Connections that wait, by owner. The owner that has waited longest is the first one. */
  readonly #waiting = new Map<string, TurnTaker[]>();
  /** Number of messages that were handled in this turn, by owner. */
  readonly #handled = new Map<string, number>();
  #left: number;
  #isScheduled = false;

  constructor({ perOwner = Infinity, total = Infinity }: Limit) {
    this.#perOwner = perOwner;
    this.#total = total;
    this.#left = total;
  }

  /** Number of further messages that the listener may handle for an owner in this turn. */
  allowance(owner: string): number {
    return Math.min(this.#left, this.#perOwner - (this.#handled.get(owner) ?? 0));
  }

  /**
   * Whether a connection that has received bytes must wait for a later turn. It must wait if its
   * owner may have no further message handled in this turn. It must also wait behind waiting
   * connections: those of all owners if the limit has a total, otherwise those of its owner.
   */
  mustWait(owner: string): boolean {
    const othersWait = this.#total === Infinity ? this.#waiting.has(owner) : this.#waiting.size > 0;
    return othersWait || this.allowance(owner) <= 0;
  }

  /** Counts handled messages. */
  spend(owner: string, messages: number): void {
    this.#left -= messages;
    this.#handled.set(owner, (this.#handled.get(owner) ?? 0) + messages);
    this.#schedule();
  }

  /** @param taker - must not be waiting already. Its `takeTurn` is called once, in a later turn */
  wait(owner: string, taker: TurnTaker): void {
    const takers = this.#waiting.get(owner);
    if (takers === undefined) this.#waiting.set(owner, [taker]);
    else takers.push(taker);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#begin());
  }

  #begin(): void {
    this.#isScheduled = false;
    this.#handled.clear();
    this.#left = this.#total;
    for (const [owner, takers] of [...this.#waiting]) {
      if (this.#left <= 0) break;
      this.#waiting.delete(owner);
      this.#serve(owner, takers);
    }
    if (this.#waiting.size > 0) this.#schedule();
  }

  /**
   * Serves the waiting connections of an owner, as far as the limits of this turn permit. The
   * remaining connections keep their places in the queue.
   */
  #serve(owner: string, takers: readonly TurnTaker[]): void {
    let served = 0;
    while (this.allowance(owner) > 0) {
      const taker = takers[served];
      if (taker === undefined) return;
      served += 1;
      taker.takeTurn();
    }
    const rest = takers.slice(served).concat(this.#waiting.get(owner) ?? []);
    if (rest.length > 0) this.#waiting.set(owner, rest);
  }
}
