import type { Logger } from 'pino';
import { inMilliseconds } from '#runtime';
import type { JobDispatcher } from './dispatcher.ts';

export interface ReachabilityOptions {
  readonly dispatcher: Pick<JobDispatcher, 'closing' | 'publishUnstored'>;
  readonly isAccepted: (id: string) => boolean;
  /** Returns the maximum time to wait for responses of minions, in milliseconds. */
  readonly waitMs: () => number;
  readonly log: Logger;
}

/** Validity period of a response as a proof that the minion is connected, in milliseconds. */
const freshMs = 5_000;

/**
 * Delay before the master publishes `test.ping`, in milliseconds. Minions whose reachability is
 * requested during this delay are asked with the same publication.
 */
const collectMs = 10;

/**
 * Time after which the master asks a silent minion for the second time, in milliseconds. The master
 * asks again because the minion may not have been subscribed yet at the first time. Each later
 * interval is twice as long.
 */
const repeatMs = 1_500;

/**
 * Finds out whether minions can be reached, by sending them `test.ping`. A response counts for five
 * seconds. A connection alone is no proof, because it may belong to another minion behind the same
 * address, or to a machine that no longer runs. A request is no proof either, because a minion
 * signs in before it subscribes to publications.
 */
export class Reachability {
  readonly #options: ReachabilityOptions;
  readonly #questions = new Map<string, Promise<boolean>>();
  /**
   * Time of the last response of each minion, as a value of `performance.now()` in milliseconds.
   * Oldest first.
   */
  readonly #answers = new Map<string, number>();
  /**
   * Minions that the next `test.ping` will ask, each with a callback for its response. The property
   * is `undefined` while no publication is scheduled.
   */
  #next: Map<string, () => void> | undefined;

  constructor(options: ReachabilityOptions) {
    this.#options = options;
  }

  /**
   * Returns whether a minion can be reached. The minion is asked, unless it has responded recently.
   */
  isReachable(id: string): Promise<boolean> {
    if (!this.#options.isAccepted(id)) return Promise.resolve(false);
    this.#forgetOldAnswers();
    if (this.#answers.has(id)) return Promise.resolve(true);
    const known = this.#questions.get(id);
    if (known !== undefined) return known;
    const question = this.#ask(id).finally(() => this.#questions.delete(id));
    this.#questions.set(id, question);
    return question;
  }

  async #ask(id: string): Promise<boolean> {
    const { dispatcher, waitMs } = this.#options;
    const { promise, resolve } = Promise.withResolvers<true>();
    const note = (): void => {
      this.#answers.delete(id);
      this.#answers.set(id, performance.now());
      resolve(true);
    };
    const deadline = performance.now() + collectMs + waitMs();
    for (let pauseMs = repeatMs; !dispatcher.closing.aborted; pauseMs *= 2) {
      const left = Math.min(pauseMs, deadline - performance.now());
      if (left <= 0) break;
      this.#enqueue(id, note);
      if ((await inMilliseconds(promise, left)) === true) return true;
    }
    return false;
  }

  #enqueue(id: string, onAnswer: () => void): void {
    if (this.#next === undefined) {
      this.#next = new Map();
      setTimeout(() => this.#publish(), collectMs).unref();
    }
    this.#next.set(id, onAnswer);
  }

  #publish(): void {
    const { dispatcher, waitMs, log } = this.#options;
    const asked = this.#next ?? new Map<string, () => void>();
    this.#next = undefined;
    if (dispatcher.closing.aborted) return;
    dispatcher
      .publishUnstored({ tgt: [...asked.keys()], fun: 'test.ping', arg: [] }, ({ minion }) =>
        asked.get(minion)?.(),
      )
      .then((stopListening) => setTimeout(stopListening, waitMs()).unref())
      .catch((error: unknown) =>
        log.error(
          { err: error },
          'cannot publish test.ping to check whether minions can be reached',
        ),
      );
  }

  #forgetOldAnswers(): void {
    const oldest = performance.now() - freshMs;
    for (const [id, at] of this.#answers) {
      if (at >= oldest) return;
      this.#answers.delete(id);
    }
  }
}
