/**
 * Frames of ZMTP 3 [RFC 23, WIRE 4.1].
 *
 * frame  = flags length body
 * flags  = 1 byte: 01 more follow, 02 eight-byte length, 04 command; the rest reserved
 * length = 1 byte, or 8 bytes in network order
 */

import { ByteAssembly } from '#runtime';

export const FLAG_MORE = 0x01;
const FLAG_LONG = 0x02;
export const FLAG_COMMAND = 0x04;
const RESERVED_FLAGS = 0xf8;

/**
 * Size in bytes below which a body is copied behind its header, because one write is cheaper than
 * two.
 */
const COPY_BELOW_BYTES = 4096;

export const EMPTY: Uint8Array = new Uint8Array(0);

/** Protocol violation in the header of a frame. */
export type ZmtpFrameBreach = 'reserved-flags' | 'command-with-more' | 'frame-length';

/** The result of {@link ZmtpFrameReader.next}: a frame, the end of the input, or a protocol error. */
export type ZmtpFrameStep<Refusal extends string> = 'frame' | 'starved' | ZmtpFrameBreach | Refusal;

/** Decides which frames may arrive. */
export interface ZmtpFrameFilter<Refusal extends string> {
  /**
   * Returns a reason to reject a frame, or `undefined`, before its body is read.
   * @param length - length that the peer claims; no memory has been allocated for it
   */
  admit(flags: number, length: number): Refusal | undefined;
}

/**
 * Splits a byte stream into frames. A body that is complete in one chunk is a view of that chunk. A
 * body that spans chunks is copied. Discard the reader after a protocol violation.
 */
export class ZmtpFrameReader<Refusal extends string> {
  /** Flags of the frame that `next()` returned last. */
  flags = 0;
  /** Body of the frame that `next()` returned last. Valid until the next call. */
  body: Uint8Array = EMPTY;

  readonly #gate: ZmtpFrameFilter<Refusal>;
  #chunk: Uint8Array = EMPTY;
  #position = 0;
  #phase: 'flags' | 'length' | 'body' = 'flags';
  #length = 0;
  #lengthBytesMissing = 0;
  #assembly: ByteAssembly | undefined;

  constructor(gate: ZmtpFrameFilter<Refusal>) {
    this.#gate = gate;
  }

  /** Memory held for an incomplete body, in bytes. */
  get heldBytes(): number {
    return this.#assembly?.capacity ?? 0;
  }

  /** Whether a frame has begun but is not complete yet. */
  get isMidFrame(): boolean {
    return this.#phase !== 'flags';
  }

  /**
   * Sets the next chunk of the stream. Call this only after `next` has returned `'starved'`, or
   * after `dropUnread`.
   */
  feed(chunk: Uint8Array, position = 0): void {
    this.#chunk = chunk;
    this.#position = position;
  }

  /** Forgets the bytes of the chunk that were not read, and returns their number. */
  dropUnread(): number {
    const unread = this.#chunk.length - this.#position;
    this.#starve();
    return unread;
  }

  /** Frees the collected bytes. The reader returns no further frames. */
  release(): void {
    this.#assembly = undefined;
    this.#phase = 'flags';
    this.#starve();
  }

  next(): ZmtpFrameStep<Refusal> {
    if (this.#phase === 'flags') {
      const breach = this.#readFlags();
      if (breach !== undefined) return breach;
    }
    if (this.#phase === 'length') {
      const breach = this.#readLength();
      if (breach !== undefined) return breach;
    }
    return this.#readBody();
  }

  #readFlags(): 'starved' | ZmtpFrameBreach | undefined {
    const flags = this.#chunk[this.#position];
    if (flags === undefined) return this.#starve();
    if ((flags & RESERVED_FLAGS) !== 0) return 'reserved-flags';
    if ((flags & FLAG_COMMAND) !== 0 && (flags & FLAG_MORE) !== 0) return 'command-with-more';
    this.#position += 1;
    this.flags = flags;
    this.#length = 0;
    this.#lengthBytesMissing = (flags & FLAG_LONG) === 0 ? 1 : 8;
    this.#phase = 'length';
    return undefined;
  }

  #readLength(): 'starved' | ZmtpFrameBreach | Refusal | undefined {
    while (this.#lengthBytesMissing > 0) {
      const byte = this.#chunk[this.#position];
      if (byte === undefined) return this.#starve();
      if (this.#lengthBytesMissing === 8 && byte > 0x7f) return 'frame-length';
      // Above 2^53, the value is rounded. Every limit is far below.
      this.#length = this.#length * 256 + byte;
      this.#position += 1;
      this.#lengthBytesMissing -= 1;
    }
    const refusal = this.#gate.admit(this.flags, this.#length);
    if (refusal !== undefined) return refusal;
    this.#phase = 'body';
    return undefined;
  }

  #readBody(): 'frame' | 'starved' {
    const available = this.#chunk.length - this.#position;
    if (this.#assembly === undefined && available >= this.#length) {
      this.#finish(this.#chunk.subarray(this.#position, this.#position + this.#length));
      this.#position += this.#length;
      return 'frame';
    }
    this.#assembly ??= new ByteAssembly(this.#length);
    this.#position += this.#assembly.take(this.#chunk.subarray(this.#position));
    if (!this.#assembly.isComplete) return this.#starve();
    this.#finish(this.#assembly.join());
    return 'frame';
  }

  #finish(body: Uint8Array): void {
    this.body = body;
    this.#assembly = undefined;
    this.#phase = 'flags';
  }

  #starve(): 'starved' {
    this.#chunk = EMPTY;
    this.#position = 0;
    // A view would keep the whole chunk in memory as long as the peer is silent.
    this.body = EMPTY;
    return 'starved';
  }
}

/** Encodes one frame, with header and body in one buffer. */
export function encodeFrame(body: Uint8Array, flags: number): Uint8Array {
  const frame = new Uint8Array(headerBytes(body.length) + body.length);
  frame.set(body, writeHeader(frame, 0, body.length, flags));
  return frame;
}

/**
 * Encodes one message of at least one frame as chunks to be written in order. If the body of the
 * last frame has 4 KiB or more, the last chunk is this body itself, so that messages to several
 * peers can share its memory. All other bytes are copied into the first chunk.
 */
export function encodeMessage(frames: readonly Uint8Array[]): Uint8Array[] {
  const last = frames.at(-1) ?? EMPTY;
  const copiesLast = last.length < COPY_BELOW_BYTES;
  let size = copiesLast ? 0 : -last.length;
  for (const frame of frames) size += headerBytes(frame.length) + frame.length;

  const head = new Uint8Array(size);
  let offset = 0;
  for (const [index, frame] of frames.entries()) {
    const isLast = index === frames.length - 1;
    offset = writeHeader(head, offset, frame.length, isLast ? 0 : FLAG_MORE);
    if (isLast && !copiesLast) return [head, last];
    head.set(frame, offset);
    offset += frame.length;
  }
  return [head];
}

function headerBytes(length: number): number {
  return length > 255 ? 9 : 2;
}

function writeHeader(target: Uint8Array, offset: number, length: number, flags: number): number {
  if (length <= 255) {
    target[offset] = flags;
    target[offset + 1] = length;
    return offset + 2;
  }
  target[offset] = flags | FLAG_LONG;
  const view = new DataView(target.buffer, target.byteOffset + offset + 1, 8);
  view.setUint32(0, Math.floor(length / 2 ** 32));
  view.setUint32(4, length >>> 0);
  return offset + 9;
}
