import { type MarkPool, marksPerBlock, noBlock } from './mark-pool.ts';

/** Seconds since 1970 that never come. */
const never = 0xffff_ffff;

/**
 * Digests of one minion's requests in the order in which they came, each until it expires. Thirteen
 * bytes apiece: a fleet that fires thousands of events a second has hundreds of thousands of them.
 *
 * Eight bytes of a digest are enough: the queue is one minion's own, so who makes two requests of
 * the same digest only loses one.
 */
export class MarkQueue {
  readonly #pool: MarkPool;
  readonly #maxMarks: number;
  #firstBlock = noBlock;
  #lastBlock = noBlock;
  /** Of the oldest mark, in the first block. */
  #firstIndex = 0;
  #count = 0;
  #isReleased = false;

  /** @param maxMarks - the oldest goes for one more */
  constructor(pool: MarkPool, maxMarks: number) {
    this.#pool = pool;
    this.#maxMarks = maxMarks;
  }

  /** How many there are, expired ones that were not removed yet included. */
  get size(): number {
    return this.#count;
  }

  /** @param digest - at least eight bytes */
  has(digest: Buffer): boolean {
    const [high, low] = [digest.readUInt32LE(0), digest.readUInt32LE(4)];
    let index = this.#firstIndex;
    let left = this.#count;
    for (let block = this.#firstBlock; left > 0; block = this.#pool.next(block)) {
      const words = this.#pool.pageOf(block);
      for (; index < marksPerBlock && left > 0; index += 1, left -= 1) {
        const start = this.#pool.markAt(block, index);
        if (words[start] === high && words[start + 1] === low) return true;
      }
      index = 0;
    }
    return false;
  }

  /** @param expiresAt - seconds since 1970, or infinity */
  add(digest: Buffer, expiresAt: number): void {
    if (this.#isReleased) return;
    if (this.#count === this.#maxMarks) this.#removeFirst();
    const index = (this.#firstIndex + this.#count) % marksPerBlock;
    if (index === 0) this.#addBlock();
    const words = this.#pool.pageOf(this.#lastBlock);
    const start = this.#pool.markAt(this.#lastBlock, index);
    words[start] = digest.readUInt32LE(0);
    words[start + 1] = digest.readUInt32LE(4);
    words[start + 2] = Math.min(Math.ceil(expiresAt), never);
    this.#count += 1;
  }

  /** Removes from the oldest on what has expired. @param now - seconds since 1970 */
  removeExpired(now: number): void {
    while (this.#count > 0 && this.#firstExpiry() < now) this.#removeFirst();
  }

  /** Gives the memory back; nothing is added any more. */
  release(): void {
    while (this.#count > 0) this.#removeFirst();
    this.#isReleased = true;
  }

  #firstExpiry(): number {
    const start = this.#pool.markAt(this.#firstBlock, this.#firstIndex);
    return this.#pool.pageOf(this.#firstBlock)[start + 2] ?? never;
  }

  #addBlock(): void {
    const block = this.#pool.take();
    if (this.#count === 0) this.#firstBlock = block;
    else this.#pool.link(this.#lastBlock, block);
    this.#lastBlock = block;
  }

  #removeFirst(): void {
    this.#firstIndex += 1;
    this.#count -= 1;
    const isEmpty = this.#count === 0;
    if (!isEmpty && this.#firstIndex < marksPerBlock) return;
    const block = this.#firstBlock;
    this.#firstIndex = 0;
    this.#firstBlock = isEmpty ? noBlock : this.#pool.next(block);
    this.#pool.give(block);
  }
}
