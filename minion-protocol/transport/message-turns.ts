import { FairQueue } from '#runtime';
import { transportLimits } from './limits.ts';

const { total: messagesPerTurn = 1, perOwner: messagesPerVisit = 1 } = transportLimits.messages;

/** A connection with received bytes. */
export interface TurnTaker {
  /** Owner whose connections share a turn: a minion, or an address. */
  readonly turnOwner: string;
  /**
   * Handles received messages until the connection has handled {@link MessageTurns.perVisit} of
   * them, or {@link MessageTurns.isOver}. Calls {@link MessageTurns.spend} for them, and
   * {@link MessageTurns.wait} if bytes are left.
   */
  takeTurn(): void;
}

/**
 * Limits the number of messages that a listener handles in one turn of the event loop, because one
 * read from a socket may contain thousands of small messages. The rest waits, and the owners take
 * turns. Other connections and timers are served in between.
 */
export class MessageTurns {
  /** Number of messages after which a connection waits for its next turn. */
  readonly perVisit: number = messagesPerVisit;
  readonly #queue = new FairQueue<TurnTaker>(transportLimits.messages);
  #left = messagesPerTurn;
  #isScheduled = false;

  /** Whether the listener has handled all messages of this turn. */
  get isOver(): boolean {
    return this.#left <= 0;
  }

  /** Whether a connection with new bytes must wait, because others are waiting. */
  get mustWait(): boolean {
    return this.isOver || this.#queue.length > 0;
  }

  /** Counts handled messages. */
  spend(messages: number): void {
    this.#left -= messages;
    this.#schedule();
  }

  /** @param taker - must not be waiting already. Its `takeTurn` is called once, in a later turn */
  wait(taker: TurnTaker): void {
    this.#queue.push(taker.turnOwner, taker);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#begin());
  }

  #begin(): void {
    this.#isScheduled = false;
    this.#left = messagesPerTurn;
    while (!this.isOver) {
      const taker = this.#queue.shift();
      if (taker === undefined) return;
      taker.takeTurn();
    }
    this.#schedule();
  }
}
