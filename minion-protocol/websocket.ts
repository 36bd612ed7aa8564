/**
 * A WebSocket connection, the server's side: bytes ⇄ events, no I/O [RFC 6455, WIRE 4.3].
 *
 * | state   | may come                                                | leads to |
 * |---------|---------------------------------------------------------|----------|
 * | opening | the head of an HTTP request                              | open     |
 * | open    | frames: messages in one or more, PING, PONG, CLOSE       | open     |
 * | over    | nothing: CLOSE and any breach lead here and stay         |          |
 */

import { createHash } from 'node:crypto';
import { ByteAssembly } from './byte-assembly.ts';

// Frames of WebSocket, the server's side: bytes ⇄ frames, no I/O [RFC 6455 §5].
//
// frame  = flags length mask payload
// flags  = 1 byte: 80 final, 70 reserved, 0f opcode
// length = 1 byte: 80 masked, 7f length or 7e: 2 bytes follow, 7f: 8 bytes follow
// mask   = 4 bytes, from clients always, from servers never

const OPCODE_CONTINUATION = 0;
export const OPCODE_TEXT = 1;
export const OPCODE_BINARY = 2;
const OPCODE_CLOSE = 8;
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
type WebsocketFrameBreach =
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

/** The result of {@link WebsocketFrameReader.next}. */
type WebsocketFrameStep<Refusal extends string> =
  | { readonly step: 'frame'; readonly header: WebsocketHeader; readonly payload: Uint8Array }
  | { readonly step: 'starved' }
  | { readonly step: 'breach'; readonly reason: WebsocketFrameBreach | Refusal };

/** Cuts a client's byte stream into frames and takes their masks off. */
class WebsocketFrameReader<Refusal extends string> {
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

function isControl(opcode: number): boolean {
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
export function encodeWebsocketHeader(opcode: number, length: number): Uint8Array {
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
export function encodeWebsocketClose(code: number): Uint8Array {
  const frame = Buffer.alloc(4);
  frame.set(encodeWebsocketHeader(OPCODE_CLOSE, 2));
  frame.writeUInt16BE(code, 2);
  return frame;
}

// The opening of a WebSocket connection, the server's side: HTTP head ⇄ answer, no I/O
// [RFC 6455 §4.2].

/** What is answered to a request for a WebSocket connection. */
export interface UpgradeAnswer {
  readonly isAccepted: boolean;
  /** To be sent; if it was not accepted, the connection ends behind it. */
  readonly response: Uint8Array;
}

/** [RFC 6455 §1.3] */
const keySuffix = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const keyForm = /^[A-Za-z0-9+/]{22}==$/;
const requestLine = /^GET \S+ HTTP\/1\.1$/;

/** Answers the head of an HTTP request, without the empty line that ends it. Any path will do. */
export function answerUpgrade(head: string): UpgradeAnswer {
  const [request = '', ...lines] = head.split('\r\n');
  const headers = readHeaders(lines);
  if (!requestLine.test(request) || headers === undefined) return refuse('400 Bad Request');
  if (!hasToken(headers, 'upgrade', 'websocket') || !hasToken(headers, 'connection', 'upgrade')) {
    return refuse('426 Upgrade Required', 'Upgrade: websocket\r\nConnection: Upgrade\r\n');
  }
  if (headers.get('sec-websocket-version') !== '13') {
    return refuse('426 Upgrade Required', 'Sec-WebSocket-Version: 13\r\n');
  }
  const key = headers.get('sec-websocket-key') ?? '';
  if (!keyForm.test(key)) return refuse('400 Bad Request');
  const response = `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${acceptKey(key)}\r\n\r\n`;
  return { isAccepted: true, response: Buffer.from(response, 'latin1') };
}

/** `undefined` if a line is no header. Of a name that comes twice, the values are one list. */
function readHeaders(lines: readonly string[]): Map<string, string> | undefined {
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
    if (name === undefined || value === undefined) return undefined;
    const known = headers.get(name.toLowerCase());
    headers.set(name.toLowerCase(), known === undefined ? value : `${known}, ${value}`);
  }
  return headers;
}

function hasToken(headers: ReadonlyMap<string, string>, name: string, token: string): boolean {
  const value = headers.get(name) ?? '';
  return value.split(',').some((item) => item.trim().toLowerCase() === token);
}

function acceptKey(key: string): string {
  return createHash('sha1').update(`${key}${keySuffix}`, 'latin1').digest('base64');
}

function refuse(status: string, headers = ''): UpgradeAnswer {
  const text = `HTTP/1.1 ${status}\r\n${headers}Content-Length: 0\r\n\r\n`;
  return { isAccepted: false, response: Buffer.from(text, 'latin1') };
}

/** What a connection is closed for; a closed list, fit for counting. */
export type WebsocketBreach =
  | WebsocketFrameBreach
  | 'bad-upgrade'
  | 'head-too-large'
  | 'fragment-order'
  | 'message-too-large'
  | 'too-many-fragments';

/** What a peer did. Byte arrays belong to the receiver of the event. */
export type WebsocketEvent =
  /** The handshake is complete, with `response` as its answer. */
  | { readonly type: 'upgrade'; readonly response: Uint8Array }
  | { readonly type: 'message'; readonly isText: boolean; readonly body: Uint8Array }
  /** To be answered by a PONG with the same payload. */
  | { readonly type: 'ping'; readonly payload: Uint8Array }
  /** The peer is done; `response` is what it expects before the end. Nothing comes after this. */
  | { readonly type: 'close'; readonly response: Uint8Array }
  /** The peer broke the protocol; nothing comes after this. `farewell` tells it so. */
  | {
      readonly type: 'breach';
      readonly reason: WebsocketBreach;
      readonly farewell: Uint8Array;
    };

const maxHeadBytes = 8192;
const maxFragments = 1024;
const headEnd = '\r\n\r\n';
const closeNormal = 1000;
const closeProtocolError = 1002;
const closeTooLarge = 1009;

/** The reading half of one connection. Takes chunks of any size. */
export class WebsocketDecoder {
  readonly #maxMessageBytes: number;
  readonly #reader = new WebsocketFrameReader<WebsocketBreach>((header) => this.#admit(header));
  #state: 'opening' | 'open' | 'over' = 'opening';
  #head: Buffer = Buffer.alloc(0);
  #message: { readonly isText: boolean; readonly parts: Uint8Array[]; bytes: number } | undefined;

  /** @param maxMessageBytes all frames of a message together */
  constructor(maxMessageBytes: number) {
    this.#maxMessageBytes = maxMessageBytes;
  }

  /** Memory held for a message that has not arrived completely, bytes. */
  get heldBytes(): number {
    return this.#head.length + this.#reader.heldBytes + (this.#message?.bytes ?? 0);
  }

  get isMidMessage(): boolean {
    return this.#message !== undefined || this.#reader.isMidFrame;
  }

  /** The events that `chunk` completes, in order. After a breach or the end: none. */
  push(chunk: Uint8Array): WebsocketEvent[] {
    if (this.#state === 'over') return [];
    if (this.#state === 'opening') return this.#open(chunk);
    return this.#readFrames(chunk);
  }

  #open(chunk: Uint8Array): WebsocketEvent[] {
    const before = this.#head.length;
    const head = Buffer.concat([this.#head, chunk.subarray(0, maxHeadBytes + headEnd.length)]);
    const end = head.indexOf(headEnd, Math.max(0, before - headEnd.length), 'latin1');
    if (end > maxHeadBytes || (end === -1 && head.length > maxHeadBytes)) {
      return [this.#refuse('head-too-large', badHead)];
    }
    this.#head = head;
    if (end === -1) return [];
    this.#head = Buffer.alloc(0);
    const { isAccepted, response } = answerUpgrade(head.toString('latin1', 0, end));
    if (!isAccepted) return [this.#refuse('bad-upgrade', response)];
    this.#state = 'open';
    const rest = chunk.subarray(end + headEnd.length - before);
    return [{ type: 'upgrade', response }, ...this.#readFrames(rest)];
  }

  #readFrames(chunk: Uint8Array): WebsocketEvent[] {
    const events: WebsocketEvent[] = [];
    this.#reader.feed(chunk);
    while (this.#state === 'open') {
      const next = this.#reader.next();
      if (next.step === 'starved') break;
      const event =
        next.step === 'breach'
          ? this.#refuse(next.reason)
          : this.#onFrame(next.header, next.payload);
      if (event !== undefined) events.push(event);
    }
    return events;
  }

  #admit({ opcode, length }: WebsocketHeader): WebsocketBreach | undefined {
    if (isControl(opcode)) return undefined;
    const isContinued = this.#message !== undefined;
    if (isContinued !== (opcode === OPCODE_CONTINUATION)) return 'fragment-order';
    if ((this.#message?.parts.length ?? 0) >= maxFragments) return 'too-many-fragments';
    const whole = (this.#message?.bytes ?? 0) + length;
    return whole > this.#maxMessageBytes ? 'message-too-large' : undefined;
  }

  #onFrame({ opcode, isFinal }: WebsocketHeader, payload: Uint8Array): WebsocketEvent | undefined {
    switch (opcode) {
      case OPCODE_PING:
        return { type: 'ping', payload };
      case OPCODE_PONG:
        return undefined;
      case OPCODE_CLOSE:
        this.#state = 'over';
        return { type: 'close', response: encodeWebsocketClose(closeNormal) };
      default:
        return this.#onData(opcode === OPCODE_TEXT, isFinal, payload);
    }
  }

  #onData(isText: boolean, isFinal: boolean, payload: Uint8Array): WebsocketEvent | undefined {
    if (this.#message === undefined && isFinal) return { type: 'message', isText, body: payload };
    this.#message ??= { isText, parts: [], bytes: 0 };
    this.#message.parts.push(payload);
    this.#message.bytes += payload.length;
    if (!isFinal) return undefined;
    const { parts, isText: wasText } = this.#message;
    this.#message = undefined;
    return { type: 'message', isText: wasText, body: Buffer.concat(parts) };
  }

  #refuse(reason: WebsocketBreach, farewell?: Uint8Array): WebsocketEvent {
    this.#state = 'over';
    this.#head = Buffer.alloc(0);
    this.#message = undefined;
    const code = reason === 'message-too-large' ? closeTooLarge : closeProtocolError;
    return { type: 'breach', reason, farewell: farewell ?? encodeWebsocketClose(code) };
  }
}

const badHead: Uint8Array = Buffer.from(
  'HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n\r\n',
  'latin1',
);
