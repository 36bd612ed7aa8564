/**
 * Deletes the values of removed data spaces. A record of each removed space is stored until its
 * values are deleted, so that a restart does not leave values behind.
 */

import { BridgeError } from '#heat-bridge';
import type { SharedArea, StateOperation } from '#master';
import { sleepUntilAborted } from '#runtime';

export interface EndedSpacesOptions {
  readonly state: Pick<SharedArea, 'list' | 'write'>;
  /** Deletes all values of a data space. */
  readonly forget: (space: string) => Promise<void>;
  /** Aborted when the bridge closes. */
  readonly closing: AbortSignal;
}

const prefix = ['guests', 'ended-spaces'];
/** Delay between two attempts to delete the values of a space, in milliseconds. */
const retryMs = 5_000;

/**
 * Deletes the values of removed spaces. While the server is unavailable, the deletion is repeated.
 */
export class EndedSpaces {
  readonly #options: EndedSpacesOptions;
  readonly #waiting = new Set<string>();
  #isRetrying = false;

  constructor(options: EndedSpacesOptions) {
    this.#options = options;
  }

  /** Continues deletions that an earlier process did not complete. */
  async resume(): Promise<void> {
    for await (const { key } of this.#options.state.list(prefix)) {
      this.#waiting.add(key.at(-1) ?? '');
    }
    this.#retry();
  }

  /**
   * Returns the store operation that records the removal of a space. It must be part of the
   * transaction that removes the space.
   */
  operation(space: string): StateOperation {
    return { op: 'put', key: [...prefix, space], value: new Uint8Array() };
  }

  /** Deletes the values of a space now, or later if the server is unavailable. */
  async forget(space: string): Promise<void> {
    try {
      await this.#forgetNow(space);
    } catch (error) {
      this.#waiting.add(space);
      this.#retry();
      const isAway = error instanceof BridgeError && error.code === 'ERR_DATA_UNAVAILABLE';
      if (!isAway) throw error;
    }
  }

  async #forgetNow(space: string): Promise<void> {
    await this.#options.forget(space);
    await this.#options.state.write([{ op: 'delete', key: [...prefix, space] }]);
  }

  #retry(): void {
    if (this.#isRetrying || this.#waiting.size === 0) return;
    this.#isRetrying = true;
    void this.#retryUntilDone().finally(() => {
      this.#isRetrying = false;
    });
  }

  async #retryUntilDone(): Promise<void> {
    const { closing } = this.#options;
    while (this.#waiting.size > 0 && !closing.aborted) {
      await sleepUntilAborted(retryMs, closing);
      for (const space of [...this.#waiting]) {
        if (closing.aborted) return;
        // The coordinator logs the reason.
        const isDone = await this.#forgetNow(space).then(
          () => true,
          () => false,
        );
        if (!isDone) break;
        this.#waiting.delete(space);
      }
    }
  }
}
