import { FairSlots, inTime, unlimitedWaiting } from '#runtime';
import { guestLimits } from '../limits.ts';

/** Limits the rate of requests by spacing them evenly. The owners of stacks take turns. */
export class Pacer {
  readonly #gapMs: number;
  readonly #slots = new FairSlots(guestLimits.stackReads, {
    total: 1,
    // No limit is necessary here, because each server of a stack waits for at most one turn.
    waiting: unlimitedWaiting,
  });

  constructor(perSecond: number) {
    this.#gapMs = 1000 / perSecond;
  }

  /** Resolves when the owner may send its next request, or when the signal is aborted. */
  async turn(owner: string, closing: AbortSignal): Promise<void> {
    const { promise: entered, resolve } = Promise.withResolvers<true>();
    const slot = this.#slots.enter(owner, () => resolve(true));
    if ((await inTime(entered, closing)) === true) {
      setTimeout(() => slot.leave(), this.#gapMs);
    } else slot.leave();
  }
}
