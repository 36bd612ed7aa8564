/** Number of marks that one block of memory holds. A mark identifies a request. */
export const marksPerBlock = 4;

/**
 * Number of 32-bit words in a mark, which identifies a request: two for eight bytes of the
 * request's digest, and one for its expiry time.
 */
const wordsPerMark = 3;

/** Block number that marks the end of a linked list of blocks. */
const noBlock = 0xffff_ffff;

const wordsPerBlock = 1 + marksPerBlock * wordsPerMark;

const pageBits = 10;

const blocksPerPage = 1 << pageBits;

/**
 * Memory for the marks of all minions, in small blocks that form one linked list for each minion. A
 * mark identifies a request. A separate array for each minion would take several times as much
 * memory as its few marks. Released blocks are reused.
 */
export class DigestPool {
  readonly #pages: Uint32Array[] = [];
  #blocks = 0;
  #free = noBlock;

  /** Number of memory blocks that currently contain marks. */
  inUse = 0;

  /**
   * Takes a free block of memory, and returns its number. The block is not linked to another block
   * yet.
   */
  take(): number {
    this.inUse += 1;
    const block = this.#free;
    if (block === noBlock) return this.#add();
    this.#free = this.next(block);
    this.link(block, noBlock);
    return block;
  }

  give(block: number): void {
    this.inUse -= 1;
    this.link(block, this.#free);
    this.#free = block;
  }

  next(block: number): number {
    return this.pageOf(block)[startOf(block)] ?? noBlock;
  }

  link(block: number, next: number): void {
    this.pageOf(block)[startOf(block)] = next;
  }

  /**
   * Returns the index of the first number of a mark (identifier of a request) in the array from
   * {@link DigestPool.pageOf}.
   * @param index - position of the mark in the block, from 0 to 3
   */
  markAt(block: number, index: number): number {
    return startOf(block) + 1 + index * wordsPerMark;
  }

  pageOf(block: number): Uint32Array {
    const page = this.#pages[block >>> pageBits];
    if (page === undefined) throw new RangeError(`no block ${block}`);
    return page;
  }

  #add(): number {
    if (this.#blocks % blocksPerPage === 0) {
      this.#pages.push(new Uint32Array(blocksPerPage * wordsPerBlock));
    }
    const block = this.#blocks;
    this.#blocks += 1;
    this.link(block, noBlock);
    return block;
  }
}

function startOf(block: number): number {
  return (block % blocksPerPage) * wordsPerBlock;
}

/** Value that stands for the expiry time of digests that never expire. */
const never = 0xffff_ffff;

/**
 * Digests of one minion's requests, in the order of arrival, with their expiry times. Expired
 * digests are removed. A large fleet has hundreds of thousands of digests. To save memory, only
 * eight bytes of each are stored. With its expiry time, a digest takes 13 bytes.
 *
 * If two requests of a minion have the same eight bytes, the master treats the second one as a
 * repetition of the first. Other minions are not affected.
 */
export class DigestQueue {
  readonly #pool: DigestPool;
  readonly #maxMarks: number;
  #firstBlock = noBlock;
  #lastBlock = noBlock;
  /** Position of the oldest digest in the first block, from 0 to 3. */
  #firstIndex = 0;
  #count = 0;
  #isReleased = false;

  /** @param maxMarks - maximum number of digests. A further digest replaces the oldest */
  constructor(pool: DigestPool, maxMarks: number) {
    this.#pool = pool;
    this.#maxMarks = maxMarks;
  }

  /** Number of digests. It includes expired digests that have not been removed yet. */
  get size(): number {
    return this.#count;
  }

  /**
   * Whether the queue contains a digest.
   * @param digest - at least eight bytes
   */
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

  /**
   * Adds a digest.
   * @param expiresAt - expiry time in seconds since 1970, or infinity
   */
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

  /**
   * Removes expired digests, beginning with the oldest.
   * @param now - seconds since 1970
   */
  removeExpired(now: number): void {
    while (this.#count > 0 && this.#firstExpiry() < now) this.#removeFirst();
  }

  /**
   * Removes all digests from this queue, which frees their memory. Digests that are added later are
   * ignored.
   */
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
