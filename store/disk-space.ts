import { diskFullMessage, StoreError } from './errors.ts';

/** Delay before a full disk is tested again, in milliseconds. */
const probeIntervalMs = 2000;

/**
 * Rejects writes while the disk is full. The first write that fails blocks all others, and a
 * periodic probe unblocks them. So a burst of writes causes only one engine failure, each of which
 * prints a line to standard error, and free space is detected without any traffic.
 */
export class DiskSpaceGuard {
  readonly #probe: () => Promise<unknown>;
  readonly #onChange: (isFull: boolean) => void;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param probe writes as much as an ordinary write needs, and removes it
   * @param onChange called when the disk is found full, and when a write has succeeded again
   */
  constructor(probe: () => Promise<unknown>, onChange: (isFull: boolean) => void) {
    this.#probe = probe;
    this.#onChange = onChange;
  }

  /** Whether writes are rejected. */
  get isFull(): boolean {
    return this.#timer !== undefined;
  }

  /**
   * Runs a write.
   * @throws StoreError ERR_STORE_FULL, without trying, while the disk is known to be full
   */
  async guard<T>(write: () => Promise<T>): Promise<T> {
    if (this.isFull) throw new StoreError('ERR_STORE_FULL', diskFullMessage);
    try {
      return await write();
    } catch (error) {
      if (error instanceof StoreError && error.code === 'ERR_STORE_FULL') this.#closeWay();
      throw error;
    }
  }

  /** Stops probing. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #closeWay(): void {
    if (this.isFull) return;
    this.#wait();
    this.#onChange(true);
  }

  #wait(): void {
    this.#timer = setTimeout(() => {
      this.#probe().then(
        () => this.#openWay(),
        () => {
          // The guard was stopped, or the disk is still full. Later writes report the error.
          if (this.isFull) this.#wait();
        },
      );
    }, probeIntervalMs).unref();
  }

  #openWay(): void {
    if (!this.isFull) return;
    this.stop();
    this.#onChange(false);
  }
}
