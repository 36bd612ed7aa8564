/** Seconds since 1970 that never come. */
const never = 0xffff_ffff;
const digestBytes = 8;
const firstCapacity = 16;

/**
 * Digests of requests in the order in which they came, each until it expires. Twelve bytes apiece:
 * a fleet that fires thousands of events a second has hundreds of thousands of them.
 *
 * Eight bytes of a digest are enough: the ring is one minion's own, so who makes two requests of
 * the same digest only loses one.
 */
export class MarkRing {
  readonly #maxMarks: number;
  #digests: Buffer = Buffer.alloc(firstCapacity * digestBytes);
  #expiries = new Uint32Array(firstCapacity);
  #first = 0;
  #count = 0;

  /** @param maxMarks - the oldest goes for one more */
  constructor(maxMarks: number) {
    this.#maxMarks = maxMarks;
  }

  /** How many there are, expired ones that were not removed yet included. */
  get size(): number {
    return this.#count;
  }

  /** @param digest - at least eight bytes */
  has(digest: Buffer): boolean {
    return this.#digests.includes(digest.subarray(0, digestBytes));
  }

  /** @param expiresAt - seconds since 1970, or infinity */
  add(digest: Buffer, expiresAt: number): void {
    if (this.#count === this.#maxMarks) this.#removeFirst();
    if (this.#count === this.#expiries.length) this.#grow();
    const place = this.#place(this.#count);
    this.#digests.set(digest.subarray(0, digestBytes), place * digestBytes);
    this.#expiries[place] = Math.min(Math.ceil(expiresAt), never);
    this.#count += 1;
  }

  /** Removes from the oldest on what has expired. @param now - seconds since 1970 */
  removeExpired(now: number): void {
    while (this.#count > 0 && (this.#expiries[this.#first] ?? never) < now) this.#removeFirst();
  }

  #removeFirst(): void {
    const start = this.#first * digestBytes;
    this.#digests.fill(0, start, start + digestBytes);
    this.#first = this.#place(1);
    this.#count -= 1;
  }

  #place(index: number): number {
    return (this.#first + index) % this.#expiries.length;
  }

  /** Called when it is full: what wraps around is put in order again. */
  #grow(): void {
    const { length } = this.#expiries;
    const expiries = new Uint32Array(2 * length);
    expiries.set(this.#expiries.subarray(this.#first));
    expiries.set(this.#expiries.subarray(0, this.#first), length - this.#first);
    const split = this.#first * digestBytes;
    const digests = Buffer.alloc(2 * length * digestBytes);
    digests.set(this.#digests.subarray(split));
    digests.set(this.#digests.subarray(0, split), length * digestBytes - split);
    this.#expiries = expiries;
    this.#digests = digests;
    this.#first = 0;
  }
}
