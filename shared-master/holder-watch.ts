/** Watches the process that holds the directory from another one, and ends it when it hangs. */

import { endHolder, type HolderState, probeHolder } from '../store/index.ts';

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

/** Counts for how long one holder has been silent. */
export class HolderWatch {
  readonly #directory: string;
  readonly #takeoverAfterMs: number;
  #generation = 0;
  #silentMs = 0;
  #lookedAt = performance.now();
  #reason = '';

  /** @param directory - of the store, its real path */
  constructor(directory: string, takeoverAfterMs: number) {
    this.#directory = directory;
    this.#takeoverAfterMs = takeoverAfterMs;
  }

  /** Why a holder that hangs cannot be ended, for a person. */
  get reason(): string {
    return this.#reason;
  }

  /** Looks once; to be called every second at least. @throws StoreError ERR_STORE_UNAVAILABLE */
  async look(): Promise<WatchedHolder> {
    const { generation, state } = await probeHolder(this.#directory);
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
      return 'ended';
    }
    this.#reason = outcome.reason;
    return 'hung';
  }
}
