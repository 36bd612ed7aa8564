/** Encodes and decodes the fields of ZooKeeper's records [ZooKeeper 3.8: zookeeper.jute]. */

/** Metadata of a node, without its data. */
export interface NodeStat {
  readonly version: number;
  readonly dataLength: number;
}

export function int(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

/**
 * Returns a 64-bit zero. Fields of this type serve to resume an earlier session, which this client
 * never does.
 */
export function long(): Buffer {
  return Buffer.alloc(8);
}

export function flag(value: boolean): Buffer {
  return Buffer.from([value ? 1 : 0]);
}

export function buffer(bytes: Uint8Array): Buffer {
  return Buffer.concat([int(bytes.length), bytes]);
}

export function text(value = ''): Buffer {
  return buffer(Buffer.from(value));
}

export function frame(parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([int(body.length), body]);
}

/**
 * Decodes a record.
 * @throws RangeError if it is truncated
 */
export class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  int(): number {
    this.#at += 4;
    return this.#bytes.readInt32BE(this.#at - 4);
  }

  long(): bigint {
    this.#at += 8;
    return this.#bytes.readBigInt64BE(this.#at - 8);
  }

  /** Returns a copy of a byte field. Empty if the field is absent. */
  buffer(): Uint8Array {
    const length = Math.max(0, this.int());
    if (length > this.#bytes.length - this.#at)
      throw new RangeError('ZooKeeper sent an incomplete record');
    this.#at += length;
    return Uint8Array.from(this.#bytes.subarray(this.#at - length, this.#at));
  }

  text(): string {
    return Buffer.from(this.buffer()).toString('utf8');
  }

  stat(): NodeStat {
    for (let field = 0; field < 4; field += 1) this.long();
    const version = this.int();
    this.int();
    this.int();
    this.long();
    return { version, dataLength: this.int() };
  }
}
