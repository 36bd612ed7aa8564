/** Seconds since 1970 that never come. */
const never = 0xffff_ffff;
const digestBytes = 8;
const expiryBytes = 4;
const firstCapacity = 4;

/**
 * Digests of requests in the order in which they came, each until it expires. Twelve bytes apiece:
 * a fleet that fires thousands of events a second has hundreds of thousands of them.
 *
 * Eight bytes of a digest are enough: the ring is one minion's own, so who makes two requests of
 * the same digest only loses one.
 */
export class MarkRing {
  readonly #maxMarks: number;
  /** All digests, then all expiries: one piece of memory, because there is a ring for each minion. */
  #marks = allocate(firstCapacity);
  /** The digests alone, a view. */
  #digests = this.#marks.subarray(0, firstCapacity * digestBytes);
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
    return this.#digests.includes(digest.subarray(0, digestBytes));
  }

  /** @param expiresAt - seconds since 1970, or infinity */
  add(digest: Buffer, expiresAt: number): void {
    if (this.#count === this.#maxMarks) this.#removeFirst();
    if (this.#count === this.#capacity) this.#grow();
    const place = this.#place(this.#count);
    digest.copy(this.#marks, place * digestBytes, 0, digestBytes);
    this.#marks.writeUInt32LE(Math.min(Math.ceil(expiresAt), never), this.#expiryAt(place));
    this.#count += 1;
  }

  /** Removes from the oldest on what has expired. @param now - seconds since 1970 */
  removeExpired(now: number): void {
    while (this.#count > 0 && this.#marks.readUInt32LE(this.#expiryAt(this.#first)) < now) {
      this.#removeFirst();
    }
  }

  #removeFirst(): void {
    const start = this.#first * digestBytes;
    this.#marks.fill(0, start, start + digestBytes);
    this.#first = this.#place(1);
    this.#count -= 1;
  }

  #place(index: number): number {
    return (this.#first + index) % this.#capacity;
  }

  #expiryAt(place: number): number {
    return this.#capacity * digestBytes + place * expiryBytes;
  }

  /** Called when it is full: what wraps around is put in order again. */
  #grow(): void {
    const length = this.#capacity;
    const expiries = this.#marks.subarray(length * digestBytes);
    const grown = allocate(2 * length);
    putInOrder(grown, this.#digests, this.#first * digestBytes);
    putInOrder(grown.subarray(2 * length * digestBytes), expiries, this.#first * expiryBytes);
    this.#marks = grown;
    this.#capacity = 2 * length;
    this.#digests = grown.subarray(0, this.#capacity * digestBytes);
    this.#first = 0;
  }
}

/** Small ones share a page. */
function allocate(capacity: number): Buffer {
  return Buffer.allocUnsafe(capacity * (digestBytes + expiryBytes)).fill(0);
}

function putInOrder(into: Buffer, from: Buffer, first: number): void {
  into.set(from.subarray(first));
  into.set(from.subarray(0, first), from.length - first);
}
