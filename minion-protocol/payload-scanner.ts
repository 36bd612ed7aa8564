import type { PayloadLimits } from './payload-reader.ts';

/** Why a value cannot be the protocol's, as far as its heads tell. */
export type ScanBreach = 'bad-payload' | 'message-too-large' | 'too-deep' | 'too-many-elements';

/** What a value's first byte says. */
type Head =
  /** So many bytes follow. */
  | { readonly kind: 'bytes'; readonly count: number }
  | { readonly kind: 'list' | 'map'; readonly count: number }
  /** The count comes first, in so many bytes; `extra` more than it says follow. */
  | {
      readonly kind: 'sized';
      readonly of: 'bytes' | 'list' | 'map';
      readonly lengthBytes: number;
      readonly extra: number;
    }
  | { readonly kind: 'reserved' };

/**
 * Finds where a MessagePack value ends in a stream that has no lengths of its own. Builds nothing:
 * it counts, so that a value that promises too much is refused by its head [THREATS N-03, N-04].
 */
export class PayloadScanner {
  readonly #limits: PayloadLimits;
  /** How many values each open list or map still waits for, outermost first. */
  #open: number[] = [];
  /** Bytes of the present text, number or the like that have not come. */
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

  /** Reads on from `start`; says where it stopped: behind the value, at a breach, or at the end. */
  scan(bytes: Uint8Array, start: number): number {
    let position = start;
    while (this.#state === 'scanning' && position < bytes.length) {
      position += this.#step(bytes, position);
    }
    return position;
  }

  /** Takes one byte, or as many as there are to skip. */
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

/** Where the value that begins at `start` ends; `undefined`: not in these bytes. */
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

/** The bytes c0 to df, as the MessagePack specification has them. */
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
