import { StoreError } from './errors.ts';

/** How long a full disk is left alone before it is tried again, milliseconds. */
const probeIntervalMs = 2000;

/** What {@link SpaceWatch} needs. */
export interface SpaceWatchOptions {
  /** Writes as much as an ordinary write needs, and takes it away again. */
  readonly probe: () => Promise<unknown>;
  /** Told when the disk is found full, and when a write has succeeded again. */
  readonly onChange: (isFull: boolean) => void;
}

/**
 * Keeps writes from a disk that is full: the first one that fails closes the way for all, and a
 * probe of its own opens it again. So a burst of writes costs one failure of the engine, which
 * writes a line to standard error for each, and its end is noticed without any traffic.
 */
export class SpaceWatch {
  readonly #options: SpaceWatchOptions;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: SpaceWatchOptions) {
    this.#options = options;
  }

  /** Whether writes are being refused. */
  get isFull(): boolean {
    return this.#timer !== undefined;
  }

  /** @throws StoreError ERR_STORE_FULL without trying while the disk is known to be full */
  async guard<T>(write: () => Promise<T>): Promise<T> {
    if (this.isFull) throw new StoreError('ERR_STORE_FULL', fullMessage);
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
    this.#options.onChange(true);
  }

  #wait(): void {
    this.#timer = setTimeout(() => {
      this.#options.probe().then(
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
    this.#options.onChange(false);
  }
}

/** The words for a write that found no room. */
export const fullMessage = 'the disk of the store is full: nothing was kept';
