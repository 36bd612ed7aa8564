/**
 * A WebSocket connection, the server's side: bytes ⇄ events, no I/O [RFC 6455, WIRE 4.3].
 *
 * | state   | may come                                                | leads to |
 * |---------|---------------------------------------------------------|----------|
 * | opening | the head of an HTTP request                              | open     |
 * | open    | frames: messages in one or more, PING, PONG, CLOSE       | open     |
 * | over    | nothing: CLOSE and any breach lead here and stay         |          |
 */
import {
  encodeClose,
  isControl,
  OPCODE_CLOSE,
  OPCODE_CONTINUATION,
  OPCODE_PING,
  OPCODE_PONG,
  OPCODE_TEXT,
  type WebsocketFrameBreach,
  WebsocketFrameReader,
  type WebsocketHeader,
} from './websocket-frames.ts';
import { answerUpgrade } from './websocket-upgrade.ts';

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
        return { type: 'close', response: encodeClose(closeNormal) };
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
    return { type: 'breach', reason, farewell: farewell ?? encodeClose(code) };
  }
}

const badHead: Uint8Array = Buffer.from(
  'HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n\r\n',
  'latin1',
);

export { encodeFrameHeader, OPCODE_BINARY, OPCODE_PONG } from './websocket-frames.ts';
