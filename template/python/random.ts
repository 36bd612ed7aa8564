/**
 * Implements the parts of Python's `random.Random` that Salt's filters use with text seeds. The
 * same seed gives the same order as in Salt, so that templates give the same results after a
 * migration.
 */

import { hash } from 'node:crypto';

const stateSize = 624;
const shiftSize = 397;

/** The Mersenne Twister MT19937, seeded like `random.seed(text, version=2)`. */
export class Random {
  readonly #state = new Uint32Array(stateSize);
  #next = stateSize;

  constructor(seed: string) {
    const text = Buffer.from(seed);
    this.#seedByArray(wordsOf(Buffer.concat([text, hash('sha512', text, 'buffer')])));
  }

  /** Returns the indexes of `size` out of `length` items in random order, like `random.sample`. */
  sample(length: number, size: number): number[] {
    const smallSet = 21 + (size > 5 ? 4 ** Math.ceil(Math.log(size * 3) / Math.log(4)) : 0);
    return length <= smallSet ? this.#fromPool(length, size) : this.#distinct(length, size);
  }

  #fromPool(length: number, size: number): number[] {
    const pool = Array.from({ length }, (_, index) => index);
    return Array.from({ length: size }, (_, taken) => {
      const place = this.#below(length - taken);
      const [chosen = 0] = pool.splice(place, 1, pool[length - taken - 1] ?? 0);
      return chosen;
    });
  }

  #distinct(length: number, size: number): number[] {
    const chosen = new Set<number>();
    while (chosen.size < size) chosen.add(this.#below(length));
    return [...chosen];
  }

  /** Returns a random integer from 0 to below `limit`. */
  #below(limit: number): number {
    const bits = 32 - Math.clz32(limit);
    for (;;) {
      const value = this.#word() >>> (32 - bits);
      if (value < limit) return value;
    }
  }

  #word(): number {
    if (this.#next === stateSize) this.#twist();
    let value = this.#at(this.#next);
    this.#next += 1;
    value ^= value >>> 11;
    value ^= (value << 7) & 0x9d2c5680;
    value ^= (value << 15) & 0xefc60000;
    return (value ^ (value >>> 18)) >>> 0;
  }

  #twist(): void {
    for (let index = 0; index < stateSize; index += 1) {
      const bits =
        (this.#at(index) & 0x80000000) | (this.#at((index + 1) % stateSize) & 0x7fffffff);
      const shifted = this.#at((index + shiftSize) % stateSize) ^ (bits >>> 1);
      this.#state[index] = bits & 1 ? shifted ^ 0x9908b0df : shifted;
    }
    this.#next = 0;
  }

  #seedByArray(key: Uint32Array): void {
    const state = this.#state;
    state[0] = 19650218;
    for (let index = 1; index < stateSize; index += 1) {
      state[index] = Math.imul(1812433253, this.#mixed(index - 1)) + index;
    }
    let index = 1;
    let place = 0;
    const advance = (): void => {
      index += 1;
      if (index < stateSize) return;
      state[0] = this.#at(stateSize - 1);
      index = 1;
    };
    for (let round = Math.max(stateSize, key.length); round > 0; round -= 1) {
      const mixed = this.#at(index) ^ Math.imul(this.#mixed(index - 1), 1664525);
      state[index] = mixed + (key[place] ?? 0) + place;
      advance();
      place = (place + 1) % key.length;
    }
    for (let round = stateSize - 1; round > 0; round -= 1) {
      state[index] = (this.#at(index) ^ Math.imul(this.#mixed(index - 1), 1566083941)) - index;
      advance();
    }
    state[0] = 0x80000000;
  }

  #mixed(index: number): number {
    const value = this.#at(index);
    return value ^ (value >>> 30);
  }

  #at(index: number): number {
    return this.#state[index] ?? 0;
  }
}

/** Splits a big-endian number into words, the least significant first. */
function wordsOf(bytes: Buffer): Uint32Array {
  const padded = Buffer.concat([Buffer.alloc((4 - (bytes.length % 4)) % 4), bytes]);
  const words = Uint32Array.from({ length: padded.length / 4 }, (_, index) =>
    padded.readUInt32BE(padded.length - 4 * (index + 1)),
  );
  const end = words.findLastIndex((word) => word !== 0);
  return words.slice(0, Math.max(1, end + 1));
}
