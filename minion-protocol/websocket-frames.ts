/**
 * Frames of WebSocket, the server's side: bytes ⇄ frames, no I/O [RFC 6455 §5].
 *
 *     frame  = flags length mask payload
 *     flags  = 1 byte: 80 final, 70 reserved, 0f opcode
 *     length = 1 byte: 80 masked, 7f length or 7e: 2 bytes follow, 7f: 8 bytes follow
 *     mask   = 4 bytes, from clients always, from servers never
 */
import { ByteAssembly } from './byte-assembly.ts';

export const OPCODE_CONTINUATION = 0;
export const OPCODE_TEXT = 1;
export const OPCODE_BINARY = 2;
export const OPCODE_CLOSE = 8;
export const OPCODE_PING = 9;
export const OPCODE_PONG = 10;

const FLAG_FINAL = 0x80;
const RESERVED_FLAGS = 0x70;
const OPCODE_MASK = 0x0f;
const FLAG_MASKED = 0x80;
const LENGTH_16 = 126;
const LENGTH_64 = 127;
const MASK_BYTES = 4;
const MAX_CONTROL_BYTES = 125;
const LONGEST_HEADER = 14;

/** Ways in which a header alone breaks the protocol. */
export type WebsocketFrameBreach =
  | 'reserved-flags'
  | 'bad-opcode'
  | 'unmasked'
  | 'control-frame'
  | 'frame-length';

/** A header that has been read. */
export interface WebsocketHeader {
  readonly opcode: number;
  readonly isFinal: boolean;
  /** What the peer claims; nothing has been allocated for it. */
  readonly length: number;
}

/** What {@link WebsocketFrameReader.next} came to. */
export type WebsocketFrameStep<Refusal extends string> =
  | { readonly step: 'frame'; readonly header: WebsocketHeader; readonly payload: Uint8Array }
  | { readonly step: 'starved' }
  | { readonly step: 'breach'; readonly reason: WebsocketFrameBreach | Refusal };

/** Cuts a client's byte stream into frames and takes their masks off. */
export class WebsocketFrameReader<Refusal extends string> {
  readonly #admit: (header: WebsocketHeader) => Refusal | undefined;
  readonly #head: Buffer = Buffer.alloc(LONGEST_HEADER);
  #headBytes = 0;
  #chunk: Uint8Array = new Uint8Array(0);
  #position = 0;
  #body: { readonly header: WebsocketHeader; readonly assembly: ByteAssembly } | undefined;

  /** @param admit decides by its header whether a frame may arrive at all */
  constructor(admit: (header: WebsocketHeader) => Refusal | undefined) {
    this.#admit = admit;
  }

  /** Memory taken by the payload that has not arrived completely. */
  get heldBytes(): number {
    return this.#body?.assembly.capacity ?? 0;
  }

  get isMidFrame(): boolean {
    return this.#headBytes > 0;
  }

  /** Gives the next piece of the stream; the previous one must be used up (`'starved'`). */
  feed(chunk: Uint8Array): void {
    this.#chunk = chunk;
    this.#position = 0;
  }

  next(): WebsocketFrameStep<Refusal> {
    if (this.#body === undefined) {
      const reason = this.#readHeader();
      if (reason !== undefined) return { step: 'breach', reason };
    }
    if (this.#body === undefined) return { step: 'starved' };
    const { header, assembly } = this.#body;
    this.#position += assembly.take(this.#chunk.subarray(this.#position));
    if (!assembly.isComplete) return { step: 'starved' };
    const mask = this.#head.subarray(this.#headBytes - MASK_BYTES, this.#headBytes);
    const payload = assembly.join();
    unmask(payload, mask);
    this.#body = undefined;
    this.#headBytes = 0;
    return { step: 'frame', header, payload };
  }

  /** Judges each part of the header as soon as it is there. */
  #readHeader(): WebsocketFrameBreach | Refusal | undefined {
    for (;;) {
      const breach = this.#judge();
      if (breach !== undefined) return breach;
      if (this.#headBytes >= 2 && this.#headBytes === headerBytes(this.#head)) break;
      const byte = this.#chunk[this.#position];
      if (byte === undefined) return undefined;
      this.#head[this.#headBytes] = byte;
      this.#headBytes += 1;
      this.#position += 1;
    }
    const header = readHeader(this.#head);
    if (header === undefined) return 'frame-length';
    const refusal = this.#admit(header);
    if (refusal !== undefined) return refusal;
    this.#body = { header, assembly: new ByteAssembly(header.length) };
    return undefined;
  }

  #judge(): WebsocketFrameBreach | undefined {
    const [flags = 0, length = 0] = this.#head;
    if (this.#headBytes === 1) return judgeFlags(flags);
    if (this.#headBytes !== 2) return undefined;
    if ((length & FLAG_MASKED) === 0) return 'unmasked';
    const isLong = (length & ~FLAG_MASKED) > MAX_CONTROL_BYTES;
    return isControl(flags & OPCODE_MASK) && isLong ? 'control-frame' : undefined;
  }
}

function judgeFlags(flags: number): WebsocketFrameBreach | undefined {
  const opcode = flags & OPCODE_MASK;
  if ((flags & RESERVED_FLAGS) !== 0) return 'reserved-flags';
  if ((opcode > OPCODE_BINARY && opcode < OPCODE_CLOSE) || opcode > OPCODE_PONG) {
    return 'bad-opcode';
  }
  return isControl(opcode) && (flags & FLAG_FINAL) === 0 ? 'control-frame' : undefined;
}

export function isControl(opcode: number): boolean {
  return opcode >= OPCODE_CLOSE;
}

function headerBytes(head: Buffer): number {
  const short = (head[1] ?? 0) & ~FLAG_MASKED;
  const lengthBytes = short === LENGTH_16 ? 2 : short === LENGTH_64 ? 8 : 0;
  return 2 + lengthBytes + MASK_BYTES;
}

/** `undefined` for a length that is not in its shortest form, or beyond 2^53. */
function readHeader(head: Buffer): WebsocketHeader | undefined {
  const flags = head[0] ?? 0;
  const short = (head[1] ?? 0) & ~FLAG_MASKED;
  const about = { opcode: flags & OPCODE_MASK, isFinal: (flags & FLAG_FINAL) !== 0 };
  if (short < LENGTH_16) return { ...about, length: short };
  if (short === LENGTH_16) {
    const length = head.readUInt16BE(2);
    return length < LENGTH_16 ? undefined : { ...about, length };
  }
  const length = Number(head.readBigUInt64BE(2));
  return length <= 0xffff || !Number.isSafeInteger(length) ? undefined : { ...about, length };
}

function unmask(payload: Uint8Array, mask: Uint8Array): void {
  for (let index = 0; index < payload.length; index += 1) {
    payload[index] = (payload[index] ?? 0) ^ (mask[index % MASK_BYTES] ?? 0);
  }
}

/** The header of a whole message of the server, in one frame. */
export function encodeFrameHeader(opcode: number, length: number): Uint8Array {
  const flags = FLAG_FINAL | opcode;
  if (length < LENGTH_16) return Uint8Array.of(flags, length);
  const isShort = length <= 0xffff;
  const header = Buffer.alloc(isShort ? 4 : 10);
  header[0] = flags;
  header[1] = isShort ? LENGTH_16 : LENGTH_64;
  if (isShort) header.writeUInt16BE(length, 2);
  else header.writeBigUInt64BE(BigInt(length), 2);
  return header;
}

/** A close frame. `code`: [RFC 6455 §7.4]. */
export function encodeClose(code: number): Uint8Array {
  const frame = Buffer.alloc(4);
  frame.set(encodeFrameHeader(OPCODE_CLOSE, 2));
  frame.writeUInt16BE(code, 2);
  return frame;
}
