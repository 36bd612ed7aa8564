import type { StatsFs } from 'node:fs';
import { stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { diskFullMessage, StoreError } from './errors.ts';

/** Interval between tests for free space while the disk is full, in milliseconds. */
const probeIntervalMs = 2000;

/**
 * Returns the size of a store and of the free space of its disk, in bytes. `undefined` if it cannot
 * be determined.
 * @param directory - directory of an open store
 * @param read - reads the size of the file system of a directory
 */
export async function diskSpaceOf(
  directory: string,
  read: (directory: string) => Promise<Pick<StatsFs, 'bavail' | 'blocks' | 'bsize'>> = statfs,
): Promise<number | undefined> {
  try {
    const { bavail, blocks, bsize } = await read(directory);
    // Some network and virtual file systems do not report their size.
    if (blocks === 0) return undefined;
    return bavail * bsize + (await stat(path.join(directory, 'data.mdb'))).size;
  } catch {
    return undefined;
  }
}

/**
 * Rejects writes while the disk is full. After the first write that fails, all later writes are
 * rejected until a periodic probe succeeds. So a burst of writes causes only one failure of the
 * engine. This matters because the engine prints a line to standard error for each failure. The
 * probe detects free space even without any traffic.
 */
export class DiskSpaceGuard {
  readonly #probe: () => Promise<unknown>;
  readonly #onChange: (isFull: boolean) => void;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param probe - tests for free space: writes as many bytes as an ordinary write, and deletes
   * them
   * @param onChange - called with `true` when a write fails because the disk is full, and with
   * `false` when a probe has succeeded
   */
  constructor(probe: () => Promise<unknown>, onChange: (isFull: boolean) => void) {
    this.#probe = probe;
    this.#onChange = onChange;
  }

  /** Whether writes are rejected because the disk is full. */
  get isFull(): boolean {
    return this.#timer !== undefined;
  }

  /**
   * Runs a write. While the disk is known to be full, rejects without running the write.
   * @throws StoreError ERR_STORE_FULL
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
          // The guard was stopped, or the disk is still full. Errors are ignored here, because
          // later writes report them.
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
