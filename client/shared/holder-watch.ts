/**
 * Watches the process that runs the shared master (the holder), and ends it if it hangs. The other
 * processes run this code.
 */

import { delay } from '#runtime';
import { endHolder, type HolderState, probeHolder } from '#store';

/** Result of a check of the holder, the process that runs the shared master. */
export type WatchedHolder =
  | Exclude<HolderState['state'], 'silent'>
  | 'silent'
  /** The holder did not respond for too long and was ended. */
  | 'ended'
  /**
   * The process that runs the shared master has not responded for too long, and this process cannot
   * end it. {@link HolderWatch.reason} states why.
   */
  | 'hung';

/**
 * Maximum time that one check counts as time without a response of the holder, in milliseconds. If
 * more time has passed since the last check, this process itself may have been suspended.
 */
const maxStepMs = 1500;

export interface HolderWatchOptions {
  /** Path of the store's directory, without symbolic links. */
  readonly directory: string;
  readonly takeoverAfterMs: number;
  /** Called after a holder that did not respond was ended. */
  readonly onEnded: (pid: number) => void;
}

/**
 * Maximum time, in milliseconds, that a check waits for a late response: the response of the holder
 * to the request of an earlier check.
 */
const lateMs = 200;

/** Watches the holder, and measures how long it has not responded. */
export class HolderWatch {
  readonly #directory: string;
  readonly #takeoverAfterMs: number;
  readonly #onEnded: (pid: number) => void;
  #generation = 0;
  #silentMs = 0;
  #lookedAt = performance.now();
  /**
   * Request that the holder has not answered yet. It is not repeated, because a holder that is only
   * busy answers it later.
   */
  #late: Promise<HolderState> | undefined;
  #reason = '';

  constructor({ directory, takeoverAfterMs, onEnded }: HolderWatchOptions) {
    this.#directory = directory;
    this.#takeoverAfterMs = takeoverAfterMs;
    this.#onEnded = onEnded;
  }

  /**
   * Reason why the holder, the process that runs the shared master, cannot be ended although it
   * hangs.
   */
  get reason(): string {
    return this.#reason;
  }

  /**
   * Checks once whether the holder, the process that runs the shared master, responds. Call this
   * method at least every second.
   * @throws StoreError ERR_STORE_UNAVAILABLE
   */
  async look(): Promise<WatchedHolder> {
    const { generation, state } = await this.#probe();
    const now = performance.now();
    const stepMs = Math.min(now - this.#lookedAt, maxStepMs);
    this.#lookedAt = now;
    const isSame = generation === this.#generation;
    this.#generation = generation;
    if (state !== 'silent' || !isSame) {
      this.#silentMs = 0;
      return state;
    }
    this.#silentMs += stepMs;
    if (this.#silentMs < this.#takeoverAfterMs) return 'silent';
    const outcome = await endHolder(this.#directory, generation);
    if (outcome.isEnded) {
      this.#silentMs = 0;
      this.#late = undefined;
      this.#onEnded(outcome.pid);
      return 'ended';
    }
    // Another process may have become the holder between the two checks.
    const again = await probeHolder(this.#directory);
    if (again.generation !== generation || again.state !== 'silent') return again.state;
    this.#reason = outcome.reason;
    return 'hung';
  }

  async #probe(): Promise<HolderState> {
    if (this.#late === undefined) {
      const seen = await probeHolder(this.#directory);
      if (seen.state === 'silent') this.#waitForAnswer();
      return seen;
    }
    const answer = await Promise.race([this.#late, delay(lateMs)]);
    if (answer === undefined) return { generation: this.#generation, state: 'silent' };
    this.#late = undefined;
    return answer;
  }

  #waitForAnswer(): void {
    this.#late = probeHolder(this.#directory, this.#takeoverAfterMs);
    // A later check awaits this promise and handles its error.
    this.#late.catch(() => {});
  }
}
