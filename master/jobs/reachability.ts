import type { Logger } from 'pino';
import { inMilliseconds } from '#runtime';
import type { JobDispatcher } from './dispatcher.ts';

export interface ReachabilityOptions {
  readonly dispatcher: Pick<JobDispatcher, 'closing' | 'publishUnkept'>;
  readonly isAccepted: (id: string) => boolean;
  /** Returns the time that minions have to respond, in milliseconds. */
  readonly waitMs: () => number;
  readonly log: Logger;
}

/** Age up to which a response proves that its minion is connected, in milliseconds. */
const freshMs = 5_000;

/** Time in which checks of minions are collected for one publication, in milliseconds. */
const collectMs = 10;

/**
 * Time after which a minion is asked again, in milliseconds. It may have subscribed in the
 * meantime.
 */
const repeatMs = 1_500;

/**
 * Determines whether minions can be reached, by asking them. A connection does not prove it: it may
 * belong to another minion behind the same address, or to a machine that no longer runs. A request
 * does not prove it either, because a minion signs in before it subscribes. A connected minion may
 * also have sent no request since the start of the master. A response to `test.ping` is a proof for
 * a few seconds.
 */
export class Reachability {
  readonly #options: ReachabilityOptions;
  readonly #questions = new Map<string, Promise<boolean>>();
  /** Times of the last responses by `performance.now()`, oldest first. */
  readonly #answers = new Map<string, number>();
  /** Minions of the next publication, each with a callback for its response. */
  #next: Map<string, () => void> | undefined;

  constructor(options: ReachabilityOptions) {
    this.#options = options;
  }

  /** Returns whether a minion can be reached. It is asked unless it has responded recently. */
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
      .catch((error: unknown) => log.error({ err: error }, 'test.ping could not be published'));
  }

  #forgetOldAnswers(): void {
    const oldest = performance.now() - freshMs;
    for (const [id, at] of this.#answers) {
      if (at >= oldest) return;
      this.#answers.delete(id);
    }
  }
}
