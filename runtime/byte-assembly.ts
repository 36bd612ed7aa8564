const SMALLEST_BLOCK_BYTES = 256;
const LARGEST_BLOCK_BYTES = 64 * 1024;

/**
 * Assembles one message from chunks. Allocates memory in blocks as chunks arrive, because a peer
 * may announce a long message and never send it. A new block has the size of all previous blocks
 * together, but at least 256 bytes and at most 64 KiB. It is larger if more bytes have already
 * arrived, and never exceeds the announced length.
 */
export class ByteAssembly {
  readonly #blocks: Uint8Array[] = [];
  #missing: number;
  #taken = 0;
  #free: Uint8Array = new Uint8Array(0);
  /** Memory allocated for the message so far, in bytes. */
  capacity = 0;

  /** @param length - size of the message in bytes; omit it if the size is not known in advance */
  constructor(length: number = Number.MAX_SAFE_INTEGER) {
    this.#missing = length;
  }

  get isComplete(): boolean {
    return this.#missing === 0;
  }

  /**
   * Copies the part of `bytes` that belongs to this message. Returns the number of bytes copied.
   */
  take(bytes: Uint8Array): number {
    const wanted = bytes.subarray(0, this.#missing);
    let copied = 0;
    while (copied < wanted.length) {
      if (this.#free.length === 0) this.#addBlock(wanted.length - copied);
      const piece = wanted.subarray(copied, copied + this.#free.length);
      this.#free.set(piece);
      this.#free = this.#free.subarray(piece.length);
      copied += piece.length;
    }
    this.#missing -= copied;
    this.#taken += copied;
    return copied;
  }

  /** Number of bytes received so far. */
  get length(): number {
    return this.#taken;
  }

  /** Joins all bytes received so far into one array. */
  join(): Uint8Array {
    const [first = new Uint8Array(0), ...rest] = this.blocks();
    if (rest.length === 0) return first;
    const whole = new Uint8Array(this.#taken);
    let offset = 0;
    for (const block of this.blocks()) {
      whole.set(block, offset);
      offset += block.length;
    }
    return whole;
  }

  /** Yields all bytes received so far, as views of the memory that contains them. */
  *blocks(): Generator<Uint8Array, void> {
    let left = this.#taken;
    for (const block of this.#blocks) {
      yield block.subarray(0, left);
      left -= block.length;
      if (left <= 0) return;
    }
  }

  #addBlock(arrived: number): void {
    const growth = Math.min(Math.max(this.capacity, SMALLEST_BLOCK_BYTES), LARGEST_BLOCK_BYTES);
    const block = new Uint8Array(Math.min(this.#missing, Math.max(arrived, growth)));
    this.#blocks.push(block);
    this.#free = block;
    this.capacity += block.length;
  }
}
