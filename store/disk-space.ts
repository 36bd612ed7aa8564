import { diskFullMessage, StoreError } from './errors.ts';

/** How long a full disk is left alone before it is tried again, milliseconds. */
const probeIntervalMs = 2000;

/**
 * Keeps writes from a disk that is full: the first one that fails closes the way for all, and a
 * probe of its own opens it again. So a burst of writes costs one failure of the engine, which
 * writes a line to standard error for each, and its end is noticed without any traffic.
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

  /** Whether writes are being refused. */
  get isFull(): boolean {
    return this.#timer !== undefined;
  }

  /** @throws StoreError ERR_STORE_FULL without trying while the disk is known to be full */
  async guard<T>(write: () => Promise<T>): Promise<T> {
    if (this.isFull) throw new StoreError('ERR_STORE_FULL', diskFullMessage);
    try {
      return await write();
    } catch (error) {
      if (error instanceof StoreError && error.code === 'ERR_STORE_FULL') this.#closeWay();
      throw error;
    }
  }

  /** Probes no more. */
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
          // Stopped meanwhile, or still full: whoever writes is told so.
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
