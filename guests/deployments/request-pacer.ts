import { sleepUntilAborted } from '#runtime';

/** Limits the rate of requests by spacing them evenly. */
export class Pacer {
  readonly #gapMs: number;
  #next = 0;

  constructor(perSecond: number) {
    this.#gapMs = 1000 / perSecond;
  }

  async turn(closing: AbortSignal): Promise<void> {
    const now = performance.now();
    const at = Math.max(now, this.#next);
    this.#next = at + this.#gapMs;
    if (at > now) await sleepUntilAborted(at - now, closing);
  }
}
