/** Watches the process that holds the directory from another one, and ends it when it hangs. */

import { delay } from '#runtime';
import { endHolder, type HolderState, probeHolder } from '#store';

/** What a look at the holder showed. */
export type WatchedHolder =
  | Exclude<HolderState['state'], 'silent'>
  | 'silent'
  /** It was silent for too long, and has been ended. */
  | 'ended'
  /** It was silent for too long, and cannot be ended: see {@link HolderWatch.reason}. */
  | 'hung';

/** No time between two looks counts for more: this process may have been stopped itself. */
const maxStepMs = 1500;

export interface HolderWatchOptions {
  /** Of the store, its real path. */
  readonly directory: string;
  readonly takeoverAfterMs: number;
  /** Called when a holder that was silent for too long has been ended. */
  readonly onEnded: (pid: number) => void;
}

/** For an answer that has not come at the first look; it may still come at a later one. */
const lateMs = 200;

/** Counts for how long one holder has been silent. */
export class HolderWatch {
  readonly #directory: string;
  readonly #takeoverAfterMs: number;
  readonly #onEnded: (pid: number) => void;
  #generation = 0;
  #silentMs = 0;
  #lookedAt = performance.now();
  /** A holder that is busy answers late, and does not hang: who was asked once is waited for. */
  #late: Promise<HolderState> | undefined;
  #reason = '';

  constructor({ directory, takeoverAfterMs, onEnded }: HolderWatchOptions) {
    this.#directory = directory;
    this.#takeoverAfterMs = takeoverAfterMs;
    this.#onEnded = onEnded;
  }

  /** Why a holder that hangs cannot be ended, for a person. */
  get reason(): string {
    return this.#reason;
  }

  /** Looks once; to be called every second at least. @throws StoreError ERR_STORE_UNAVAILABLE */
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
    // Another process may have taken over between both looks.
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
    // Told by the look that waits for it.
    this.#late.catch(() => {});
  }
}
