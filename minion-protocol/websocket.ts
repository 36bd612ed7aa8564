/**
 * The server's side of a WebSocket connection: converts bytes to events and back, without I/O [RFC
 * 6455, WIRE 4.3]. The package `ws` reads and writes frames. This module adds the opening handshake
 * over a plain socket and accounts for the memory of incomplete messages.
 *
 * | state   | input                                                    | leads to |
 * |---------|----------------------------------------------------------|----------|
 * | opening | the head of an HTTP request                              | open     |
 * | open    | frames: messages in one or more, PING, PONG              | open     |
 * | open    | CLOSE, or any violation of the protocol                  | over     |
 * | over    | anything; it is ignored                                  | over     |
 */

import { Receiver, type ReceiverError, Sender } from 'ws';
import { answerUpgrade } from './websocket-handshake.ts';

declare module 'ws' {
  /**
   * Reads WebSocket frames. `_write` is synchronous: before it returns, it has called the listeners
   * of the read frames, and `done`.
   */
  class Receiver {
    constructor(options: {
      isServer: boolean;
      maxPayload: number;
      maxFragments: number;
      skipUTF8Validation: boolean;
    });
    on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): this;
    on(event: 'ping', listener: (data: Buffer) => void): this;
    on(event: 'conclude', listener: () => void): this;
    _write(chunk: Uint8Array, encoding: string, done: (error?: ReceiverError) => void): void;
    /** Number of received bytes of an incomplete frame. */
    readonly _bufferedBytes: number;
    /** State of the frame parser: 0 between two frames, a higher number inside a frame. */
    readonly _state: number;
    /** Size of the payload of the current frame, in bytes. */
    readonly _payloadLength: number;
    /** Opcode of a message whose last frame has not arrived; 0 between two messages. */
    readonly _fragmented: number;
  }
  const Sender: {
    frame(
      data: Uint8Array,
      options: { fin: boolean; opcode: number; mask: boolean; readOnly: boolean; rsv1: boolean },
    ): Buffer[];
  };
  interface ReceiverError extends Error {
    readonly code: string;
  }
}

export const OPCODE_TEXT = 1;
export const OPCODE_BINARY = 2;
const OPCODE_CLOSE = 8;
export const OPCODE_PING = 9;
export const OPCODE_PONG = 10;

/**
 * Encodes a complete message of the server as one frame: the header, and `payload` if it is not
 * empty.
 */
export function encodeWebsocketFrame(opcode: number, payload: Uint8Array): Uint8Array[] {
  return Sender.frame(payload, { fin: true, opcode, mask: false, readOnly: true, rsv1: false });
}

/** Encodes a close frame with a status code [RFC 6455 §7.4]. */
export function encodeWebsocketClose(code: number): Uint8Array {
  return Buffer.concat(encodeWebsocketFrame(OPCODE_CLOSE, Buffer.of(code >> 8, code & 0xff)));
}

/**
 * Reason for closing a connection. The number of reasons is fixed, so that a metric label can
 * contain them.
 */
export type WebsocketBreach =
  | 'reserved-flags'
  | 'bad-opcode'
  | 'unmasked'
  | 'control-frame'
  | 'frame-length'
  | 'bad-upgrade'
  | 'head-too-large'
  | 'fragment-order'
  | 'message-too-large'
  | 'too-many-fragments';

/** An event of a peer. Byte arrays belong to the receiver of the event. */
export type WebsocketEvent =
  /** The handshake is complete. `response` contains the bytes to send to the peer. */
  | { readonly type: 'upgrade'; readonly response: Uint8Array }
  | { readonly type: 'message'; readonly isText: boolean; readonly body: Uint8Array }
  /** The peer expects a PONG with the same payload. */
  | { readonly type: 'ping'; readonly payload: Uint8Array }
  /** The peer ends the connection and expects `response`. No event follows. */
  | { readonly type: 'close'; readonly response: Uint8Array }
  /**
   * The peer violated the protocol. `farewell` contains the bytes to send to it, such as a close
   * frame. No event follows.
   */
  | {
      readonly type: 'breach';
      readonly reason: WebsocketBreach;
      readonly farewell: Uint8Array;
    };

const maxHeadBytes = 8192;
const maxFragments = 1024;
/**
 * Maximum value of the option `maxPayload` of the package `ws`, in bytes. The package stores the
 * option as a signed 32-bit number, and a negative number would mean no limit.
 */
const maxPayloadBytes = 2 ** 31 - 1;
/**
 * Overhead that is counted for each chunk in addition to its size, in bytes. It limits the number
 * of small chunks.
 */
const chunkOverheadBytes = 128;
/** State of the receiver while it reads the payload of a frame. */
const readsPayload = 4;
/**
 * Number of bytes that the decoder reads for each event that its caller requests. Because a message
 * can have as few as six bytes, the decoder may return more events than requested.
 */
const bytesPerEvent = 128;
const headEnd = '\r\n\r\n';
const closeNormal = 1000;
const closeProtocolError = 1002;
const closeTooLarge = 1009;

/**
 * Decodes the incoming bytes of one connection. It accepts chunks of any size and stores references
 * to them.
 */
export class WebsocketDecoder {
  /** Number of bytes that the last call of `push` has read from its chunk. */
  consumedBytes = 0;
  readonly #maxMessageBytes: number;
  #state: 'opening' | 'open' | 'over' = 'opening';
  #head: Buffer = Buffer.alloc(0);
  #receiver: Receiver | undefined;
  #events: WebsocketEvent[] = [];
  /**
   * Memory that the chunks received since the end of the last message use, in bytes. It includes
   * {@link chunkOverheadBytes} for each chunk.
   */
  #chunkBytes = 0;

  /** @param maxMessageBytes - maximum size of all frames of a message together */
  constructor(maxMessageBytes: number) {
    this.#maxMessageBytes = Math.min(maxMessageBytes, maxPayloadBytes);
  }

  /** Memory held for a message that has not arrived completely, in bytes. */
  get heldBytes(): number {
    return this.#head.length + (this.isMidMessage ? this.#chunkBytes : 0);
  }

  get isMidMessage(): boolean {
    const receiver = this.#receiver;
    if (receiver === undefined || this.#state === 'over') return false;
    return receiver._bufferedBytes > 0 || receiver._state !== 0 || receiver._fragmented !== 0;
  }

  /**
   * Returns the events that `chunk` completes, in order. After a protocol violation or the end it
   * returns none. {@link consumedBytes} is the number of bytes that were read.
   * @param maxEvents - approximate maximum number of events to return. The decoder can limit only
   * the number of bytes that it reads. It reads {@link bytesPerEvent} bytes for each event, and at
   * least the rest of the current frame. Default: no limit
   */
  push(chunk: Uint8Array, maxEvents = Infinity): WebsocketEvent[] {
    const part = chunk.subarray(0, Math.max(maxEvents * bytesPerEvent, this.#missingBytes()));
    this.consumedBytes = part.length;
    if (this.#state === 'over') return [];
    if (this.#state === 'opening') return this.#open(part);
    return this.#readFrames(part);
  }

  /**
   * Returns the number of payload bytes of the current frame that have not arrived yet. Returns 0
   * if no payload is being read.
   */
  #missingBytes(): number {
    const receiver = this.#receiver;
    if (receiver?._state !== readsPayload) return 0;
    return receiver._payloadLength - receiver._bufferedBytes;
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
    if (chunk.length === 0) return [];
    // Create the receiver for the first data. A subscriber that sends nothing does not need one.
    this.#receiver ??= this.#createReceiver();
    if (!this.isMidMessage) this.#chunkBytes = 0;
    const size = chunk.length + chunkOverheadBytes;
    this.#chunkBytes += size;
    this.#receiver._write(chunk, 'buffer', (error) => {
      if (error !== undefined) this.#events.push(this.#refuse(breachOf(error)));
    });
    // If a message ended within the chunk, the rest of the chunk belongs to the next message.
    this.#chunkBytes = Math.max(this.#chunkBytes, size);
    const events = this.#events;
    this.#events = [];
    return events;
  }

  #createReceiver(): Receiver {
    return new Receiver({
      isServer: true,
      maxPayload: this.#maxMessageBytes,
      maxFragments,
      skipUTF8Validation: true,
    })
      .on('message', (data, isBinary) => {
        this.#chunkBytes = 0;
        this.#events.push({ type: 'message', isText: !isBinary, body: compact(data) });
      })
      .on('ping', (payload) => this.#events.push({ type: 'ping', payload }))
      .on('conclude', () => {
        this.#state = 'over';
        this.#events.push({ type: 'close', response: encodeWebsocketClose(closeNormal) });
      });
  }

  #refuse(reason: WebsocketBreach, farewell?: Uint8Array): WebsocketEvent {
    this.#state = 'over';
    this.#head = Buffer.alloc(0);
    this.#receiver = undefined;
    const code = reason === 'message-too-large' ? closeTooLarge : closeProtocolError;
    return { type: 'breach', reason, farewell: farewell ?? encodeWebsocketClose(code) };
  }
}

/**
 * Copies a message that is a small part of its chunk. Otherwise the message would keep the whole
 * chunk in memory.
 */
function compact(data: Buffer): Uint8Array {
  return data.byteLength * 2 < data.buffer.byteLength ? Buffer.from(data) : data;
}

function breachOf({ code, message }: ReceiverError): WebsocketBreach {
  switch (code) {
    case 'WS_ERR_UNEXPECTED_RSV_1':
    case 'WS_ERR_UNEXPECTED_RSV_2_3':
      return 'reserved-flags';
    case 'WS_ERR_INVALID_OPCODE':
      // The opcodes 0 to 2 are valid. The error is their order.
      return / [012]$/.test(message) ? 'fragment-order' : 'bad-opcode';
    case 'WS_ERR_EXPECTED_MASK':
      return 'unmasked';
    case 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH':
      return 'message-too-large';
    case 'WS_ERR_UNSUPPORTED_DATA_PAYLOAD_LENGTH':
      return 'frame-length';
    case 'WS_ERR_TOO_MANY_BUFFERED_PARTS':
      return 'too-many-fragments';
    default:
      return 'control-frame';
  }
}

const badHead: Uint8Array = Buffer.from(
  'HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n\r\n',
  'latin1',
);
