/** Marks that lie together in one block. */
export const marksPerBlock = 4;
/** 32-bit words of a mark: eight bytes of its digest, and when it expires. */
const wordsPerMark = 3;
/** What stands where a block is the last. */
export const noBlock = 0xffff_ffff;

const wordsPerBlock = 1 + marksPerBlock * wordsPerMark;
const pageBits = 10;
const blocksPerPage = 1 << pageBits;

/**
 * Memory for the marks of all minions, in small blocks of which each names the next one of its
 * list. An array of its own for each minion takes several times what a few marks do. What was
 * given back is used again.
 */
export class MarkPool {
  readonly #pages: Uint32Array[] = [];
  #blocks = 0;
  #free = noBlock;

  /** Blocks that are in use. */
  inUse = 0;

  /** A block with nothing behind it. */
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

  /** Where the words of a mark begin in {@link MarkPool.pageOf} its block. */
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
