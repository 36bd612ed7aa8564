import { randomFillSync } from 'node:crypto';

const poolSize = 4096;

/**
 * Random bytes, a few at a time: asking the system for 16 of them costs more than encrypting a
 * short message, so a page of them is asked for at once. None is given out twice.
 */
export class RandomPool {
  #pool = Buffer.alloc(0);

  /** @param size - bytes, few of a page */
  take(size: number): Buffer {
    if (this.#pool.length < size) this.#pool = randomFillSync(Buffer.allocUnsafeSlow(poolSize));
    const taken = this.#pool.subarray(0, size);
    this.#pool = this.#pool.subarray(size);
    return taken;
  }
}
