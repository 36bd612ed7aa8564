import type { PayloadLimits } from './payload-limits.ts';

/** Reason why an encoded value violates the protocol or its limits. */
export type ScanBreach = 'bad-payload' | 'message-too-large' | 'too-deep' | 'too-many-elements';

/** Meaning of the first byte of a value. */
type Head =
  /** The value consists of the first byte and `count` more bytes. */
  | { readonly kind: 'bytes'; readonly count: number }
  | { readonly kind: 'list' | 'map'; readonly count: number }
  /**
   * The first byte is followed by a length field of `lengthBytes` bytes. The length field contains
   * the number of bytes, list elements or map entries in the content. For extensions, `extra` is 1,
   * because a type byte follows the length field.
   */
  | {
      readonly kind: 'sized';
      readonly of: 'bytes' | 'list' | 'map';
      readonly lengthBytes: number;
      readonly extra: number;
    }
  | { readonly kind: 'reserved' };

/**
 * Finds the end of a MessagePack value in a stream without length prefixes. It counts bytes and
 * elements without decoding values. If a length is too large, the value is rejected immediately
 * [THREATS N-03, N-04].
 */
export class PayloadScanner {
  readonly #limits: PayloadLimits;
  /**
   * For each open list or map, outermost first: the number of its values that were not scanned yet.
   */
  #open: number[] = [];
  /**
   * Number of bytes that are still missing from the current value. Used for values without
   * elements: texts, numbers and similar values.
   */
  #skip = 0;
  #sized: Extract<Head, { kind: 'sized' }> | undefined;
  #lengthBytesMissing = 0;
  #length = 0;
  #elements = 0;
  #size = 0;
  #state: 'scanning' | 'complete' | ScanBreach = 'scanning';

  constructor(limits: PayloadLimits) {
    this.#limits = limits;
  }

  get isComplete(): boolean {
    return this.#state === 'complete';
  }

  get breach(): ScanBreach | undefined {
    return this.#state === 'scanning' || this.#state === 'complete' ? undefined : this.#state;
  }

  /**
   * Continues scanning at `start`. Stops after the value, after a violation, or at the end of
   * `bytes`. Returns the position at which it stopped.
   */
  scan(bytes: Uint8Array, start: number): number {
    let position = start;
    while (this.#state === 'scanning' && position < bytes.length) {
      position += this.#step(bytes, position);
    }
    return position;
  }

  /**
   * Consumes the next byte. Inside a text or number, consumes all available bytes of it. Returns
   * the number of consumed bytes.
   */
  #step(bytes: Uint8Array, position: number): number {
    if (this.#skip > 0) return this.#skipOver(bytes.length - position);
    const byte = bytes[position] ?? 0;
    this.#size += 1;
    if (this.#sized === undefined) this.#begin(headOf(byte));
    else this.#readLength(this.#sized, byte);
    return 1;
  }

  #skipOver(available: number): number {
    const size = Math.min(this.#skip, available);
    this.#skip -= size;
    this.#size += size;
    if (this.#skip === 0) this.#finishValue();
    return size;
  }

  #readLength(sized: Extract<Head, { kind: 'sized' }>, byte: number): void {
    this.#length = this.#length * 256 + byte;
    this.#lengthBytesMissing -= 1;
    if (this.#lengthBytesMissing > 0) return;
    this.#sized = undefined;
    this.#begin({ kind: sized.of, count: this.#length + sized.extra });
  }

  #begin(head: Head): void {
    switch (head.kind) {
      case 'bytes':
        this.#beginBytes(head.count);
        break;
      case 'list':
      case 'map':
        this.#beginContainer(head.kind, head.count);
        break;
      case 'sized':
        this.#sized = head;
        this.#lengthBytesMissing = head.lengthBytes;
        this.#length = 0;
        break;
      case 'reserved':
        this.#state = 'bad-payload';
        break;
    }
  }

  #beginBytes(count: number): void {
    if (this.#size + count > this.#limits.maxBytes) {
      this.#state = 'message-too-large';
      return;
    }
    this.#skip = count;
    if (count === 0) this.#finishValue();
  }

  #beginContainer(kind: 'list' | 'map', count: number): void {
    this.#elements += count;
    if (this.#elements > this.#limits.maxElements) this.#state = 'too-many-elements';
    else if (this.#open.length >= this.#limits.maxDepth) this.#state = 'too-deep';
    else if (count === 0) this.#finishValue();
    else this.#open.push(kind === 'map' ? 2 * count : count);
  }

  #finishValue(): void {
    for (let left = this.#open.pop(); left !== undefined; left = this.#open.pop()) {
      if (left === 1) continue;
      this.#open.push(left - 1);
      return;
    }
    this.#state = 'complete';
  }
}

/** Returns the end of the value that begins at `start`, or `undefined` if it is not complete. */
export function endOfValue(
  bytes: Uint8Array,
  start: number,
  limits: PayloadLimits,
): number | undefined {
  const scanner = new PayloadScanner(limits);
  const end = scanner.scan(bytes, start);
  return scanner.isComplete ? end : undefined;
}

function headOf(head: number): Head {
  if (head < 0x80 || head >= 0xe0) return { kind: 'bytes', count: 0 };
  if (head < 0x90) return { kind: 'map', count: head & 0x0f };
  if (head < 0xa0) return { kind: 'list', count: head & 0x0f };
  if (head < 0xc0) return { kind: 'bytes', count: head & 0x1f };
  return heads[head - 0xc0] ?? { kind: 'reserved' };
}

/** Meaning of the bytes c0 to df, in the order of the MessagePack specification. */
const heads: readonly Head[] = [
  bytes(0), // nil
  { kind: 'reserved' },
  bytes(0), // false
  bytes(0), // true
  sized('bytes', 1), // bin
  sized('bytes', 2),
  sized('bytes', 4),
  sized('bytes', 1, 1), // ext, with its code
  sized('bytes', 2, 1),
  sized('bytes', 4, 1),
  bytes(4), // float
  bytes(8),
  bytes(1), // uint
  bytes(2),
  bytes(4),
  bytes(8),
  bytes(1), // int
  bytes(2),
  bytes(4),
  bytes(8),
  bytes(2), // fixext, with its code
  bytes(3),
  bytes(5),
  bytes(9),
  bytes(17),
  sized('bytes', 1), // str
  sized('bytes', 2),
  sized('bytes', 4),
  sized('list', 2),
  sized('list', 4),
  sized('map', 2),
  sized('map', 4),
];

function bytes(count: number): Head {
  return { kind: 'bytes', count };
}

function sized(of: 'bytes' | 'list' | 'map', lengthBytes: number, extra = 0): Head {
  return { kind: 'sized', of, lengthBytes, extra };
}
