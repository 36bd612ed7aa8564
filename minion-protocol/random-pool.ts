import { randomFillSync } from 'node:crypto';

const poolSize = 4096;

/**
 * Returns random bytes in small pieces. Requesting 16 bytes from the operating system costs more
 * than encrypting a short message, so the pool requests 4096 bytes at once. No byte is returned
 * twice.
 */
export class RandomPool {
  #pool = Buffer.alloc(0);

  /**
   * Returns random bytes.
   * @param size - number of bytes, at most 4096; if the pool has fewer bytes left, it discards them
   * and is filled again
   */
  take(size: number): Buffer {
    if (this.#pool.length < size) this.#pool = randomFillSync(Buffer.allocUnsafeSlow(poolSize));
    const taken = this.#pool.subarray(0, size);
    this.#pool = this.#pool.subarray(size);
    return taken;
  }
}
