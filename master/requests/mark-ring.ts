/** Seconds since 1970 that never come. */
const never = 0xffff_ffff;
/** 32-bit words of a mark: eight bytes of its digest, and when it expires. */
const wordsPerMark = 3;
const firstCapacity = 4;

/**
 * Digests of requests in the order in which they came, each until it expires. Twelve bytes apiece:
 * a fleet that fires thousands of events a second has hundreds of thousands of them. Never in
 * Node's shared pages, which live as long as the longest part of theirs.
 *
 * Eight bytes of a digest are enough: the ring is one minion's own, so who makes two requests of
 * the same digest only loses one.
 */
export class MarkRing {
  readonly #maxMarks: number;
  #words = new Uint32Array(firstCapacity * wordsPerMark);
  #capacity = firstCapacity;
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
    const [high, low] = [digest.readUInt32LE(0), digest.readUInt32LE(4)];
    const words = this.#words;
    for (let index = 0; index < this.#count; index += 1) {
      const start = this.#startOf(index);
      if (words[start] === high && words[start + 1] === low) return true;
    }
    return false;
  }

  /** @param expiresAt - seconds since 1970, or infinity */
  add(digest: Buffer, expiresAt: number): void {
    if (this.#count === this.#maxMarks) this.#removeFirst();
    if (this.#count === this.#capacity) this.#grow();
    const start = this.#startOf(this.#count);
    this.#words[start] = digest.readUInt32LE(0);
    this.#words[start + 1] = digest.readUInt32LE(4);
    this.#words[start + 2] = Math.min(Math.ceil(expiresAt), never);
    this.#count += 1;
  }

  /** Removes from the oldest on what has expired. @param now - seconds since 1970 */
  removeExpired(now: number): void {
    while (this.#count > 0 && (this.#words[this.#startOf(0) + 2] ?? never) < now) {
      this.#removeFirst();
    }
  }

  #removeFirst(): void {
    this.#first = (this.#first + 1) % this.#capacity;
    this.#count -= 1;
  }

  /** @param index from the oldest on */
  #startOf(index: number): number {
    return ((this.#first + index) % this.#capacity) * wordsPerMark;
  }

  /** Called when it is full: what wraps around is put in order again. */
  #grow(): void {
    const grown = new Uint32Array(2 * this.#words.length);
    const first = this.#first * wordsPerMark;
    grown.set(this.#words.subarray(first));
    grown.set(this.#words.subarray(0, first), this.#words.length - first);
    this.#words = grown;
    this.#capacity *= 2;
    this.#first = 0;
  }
}
