/** Finds out whether minions can be reached, by asking them. */

import type { Logger } from 'pino';
import { inMilliseconds } from '#runtime';
import type { JobDispatcher } from './dispatcher.ts';

export interface ReachabilityOptions {
  readonly dispatcher: Pick<JobDispatcher, 'closing' | 'publishUnkept'>;
  readonly isAccepted: (id: string) => boolean;
  /** Time that minions have for an answer, in milliseconds. */
  readonly waitMs: () => number;
  readonly log: Logger;
}

/** Age up to which an answer proves that its minion is there, in milliseconds. */
const freshMs = 5_000;

/** Time in which questions about minions are collected for one publication, in milliseconds. */
const collectMs = 10;

/** Time after which a minion is asked again, in milliseconds: it may have subscribed meanwhile. */
const repeatMs = 1_500;

/**
 * Answers whether minions can be reached. A connection is no proof: it may be another minion's behind
 * the same address, or that of a machine that is gone. Nor is a request: a minion signs in before it
 * subscribes. And a minion that listens may not have made a request since the start of the master.
 * The answer to `test.ping` is a proof, for a few seconds.
 */
export class Reachability {
  readonly #options: ReachabilityOptions;
  readonly #questions = new Map<string, Promise<boolean>>();
  /** Time of the last answers, by `performance.now()`; the oldest are first. */
  readonly #answers = new Map<string, number>();
  /** Minions of the next publication, each with the function that takes its answer. */
  #next: Map<string, () => void> | undefined;

  constructor(options: ReachabilityOptions) {
    this.#options = options;
  }

  /** Returns whether a minion is there. If it did not answer a moment ago, it is asked. */
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
      .publishUnkept([...asked.keys()], 'test.ping', [], ({ minion }) => asked.get(minion)?.())
      .then((stopListening) => setTimeout(stopListening, waitMs()).unref())
      .catch((error: unknown) => log.error({ err: error }, 'minions were not asked'));
  }

  #forgetOldAnswers(): void {
    const oldest = performance.now() - freshMs;
    for (const [id, at] of this.#answers) {
      if (at >= oldest) return;
      this.#answers.delete(id);
    }
  }
}
