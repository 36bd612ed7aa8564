/** Data spaces that have ended, until their values are forgotten where they are kept. */

import { BridgeError } from '#heat-bridge';
import type { SharedArea, StateOperation } from '#master';
import { sleepUntilAborted } from '#runtime';

export interface EndedSpacesOptions {
  readonly state: Pick<SharedArea, 'list' | 'write'>;
  /** Forgets the values of a space. */
  readonly forget: (space: string) => Promise<void>;
  /** Fires when the bridge is closed. */
  readonly closing: AbortSignal;
}

const prefix = ['guests', 'ended-spaces'];
/** Between two attempts. */
const retryMs = 5_000;

/** A server that is away does not keep a space from ending: its values are forgotten later. */
export class EndedSpaces {
  readonly #options: EndedSpacesOptions;
  readonly #waiting = new Set<string>();
  #isRetrying = false;

  constructor(options: EndedSpacesOptions) {
    this.#options = options;
  }

  /** Goes on with what another process has not done. */
  async resume(): Promise<void> {
    for await (const { key } of this.#options.state.list(prefix)) {
      this.#waiting.add(key.at(-1) ?? '');
    }
    this.#retry();
  }

  /** Keeps it, for the transaction that ends the space. */
  operation(space: string): StateOperation {
    return { op: 'put', key: [...prefix, space], value: new Uint8Array() };
  }

  /** Forgets its values now, or later where they cannot be reached. */
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
        // Whoever keeps the values tells the log why.
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
