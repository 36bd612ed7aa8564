/**
 * Frames of Salt's TCP transport: encodes and decodes them, without I/O [WIRE 4.2;
 * salt/transport/tcp.py, salt/transport/frame.py].
 *
 *     stream = *frame
 *     frame  = MessagePack map {head: map, body: any}      no length before it
 *
 *     request      {head: {mid: integer or text}, body: envelope}
 *     reply        {head: that of the request, body: reply}
 *     publication  {head: {}, body: bin(packed envelope)}
 *     presence     {head: {}, body: {enc, load, version}}
 *
 * Head and body are returned packed, so that no value is decoded only to be packed again.
 */

import { ByteAssembly } from '#runtime';
import { unpackWire } from './payload.ts';
import { clearLimits, type PayloadLimits } from './payload-limits.ts';
import { endOfValue, PayloadScanner, type ScanBreach } from './payload-scanner.ts';
import { isWireMap, type WireValue } from './wire-value.ts';

/** Reason for which a connection is closed. */
export type TcpBreach = ScanBreach | 'bad-frame';

/** An event of a TCP peer. */
export type TcpEvent =
  | {
      readonly type: 'frame';
      /** Head of the frame in packed form. The reply must have the same head. */
      readonly head: Uint8Array;
      readonly mid: WireValue | undefined;
      /** Packed body, a view into the received bytes. */
      readonly body: Uint8Array;
    }
  /** The peer violated the protocol. No event follows. */
  | { readonly type: 'breach'; readonly reason: TcpBreach };

/** Limits of the head of a message. In Salt, a head contains only a message id. */
const headLimits: PayloadLimits = {
  maxBytes: 512,
  maxDepth: 2,
  maxElements: 4,
  uniqueKeys: true,
};

const keyLimits: PayloadLimits = { maxBytes: 16, maxDepth: 1, maxElements: 1 };

const frameOverhead = 1024;

const emptyHead = 0x80;

const mapOfTwo = 0x82;

const headKey: Uint8Array = Buffer.from('a468656164', 'hex');

const bodyKey: Uint8Array = Buffer.from('a4626f6479', 'hex');

/** Decodes the incoming frames of one connection. It accepts chunks of any size. */
export class TcpFrameDecoder {
  /** Number of bytes that the last call of `push` has read from its chunk. */
  consumedBytes = 0;
  readonly #limits: PayloadLimits;
  #scanner: PayloadScanner;
  #assembly: ByteAssembly | undefined;
  #isBroken = false;

  /**
   * @param maxBodyBytes - maximum size of a body, in bytes. Nesting and number of elements have the
   * limits of unencrypted envelopes
   */
  constructor(maxBodyBytes: number) {
    this.#limits = {
      ...clearLimits,
      maxBytes: maxBodyBytes + frameOverhead,
      maxDepth: clearLimits.maxDepth + 1,
    };
    this.#scanner = new PayloadScanner(this.#limits);
  }

  /** Memory held for an incomplete frame, in bytes. */
  get heldBytes(): number {
    return this.#assembly?.capacity ?? 0;
  }

  get isMidMessage(): boolean {
    return this.#assembly !== undefined;
  }

  /**
   * Returns the events that `chunk` completes, in order. After a protocol violation it returns
   * none. {@link consumedBytes} is the number of bytes that were read.
   * @param maxEvents - number of events after which the decoder stops reading. Default: no limit
   */
  push(chunk: Uint8Array, maxEvents = Infinity): TcpEvent[] {
    const events: TcpEvent[] = [];
    let start = 0;
    while (start < chunk.length && !this.#isBroken && events.length < maxEvents) {
      const end = this.#scanner.scan(chunk, start);
      const { breach } = this.#scanner;
      if (breach !== undefined) events.push(this.#break(breach));
      else if (this.#scanner.isComplete) events.push(this.#finish(chunk.subarray(start, end)));
      else this.#gather(chunk.subarray(start));
      start = end;
    }
    this.consumedBytes = this.#isBroken ? chunk.length : start;
    return events;
  }

  #gather(bytes: Uint8Array): void {
    this.#assembly ??= new ByteAssembly();
    this.#assembly.take(bytes);
  }

  #finish(rest: Uint8Array): TcpEvent {
    this.#assembly?.take(rest);
    const frame = this.#assembly?.join() ?? rest;
    this.#assembly = undefined;
    this.#scanner = new PayloadScanner(this.#limits);
    return splitFrame(frame, this.#limits) ?? this.#break('bad-frame');
  }

  #break(reason: TcpBreach): TcpEvent {
    this.#isBroken = true;
    this.#assembly = undefined;
    return { type: 'breach', reason };
  }
}

/**
 * Splits a packed frame into its head and body. Returns `undefined` if the frame is not
 * `{head: map, body: any}`.
 */
function splitFrame(frame: Uint8Array, limits: PayloadLimits): TcpEvent | undefined {
  let position = startOfEntries(frame);
  if (position === undefined) return undefined;
  const parts = new Map<WireValue | undefined, Uint8Array>();
  for (let entry = 0; entry < 2; entry += 1) {
    const keyEnd = endOfValue(frame, position, keyLimits);
    if (keyEnd === undefined) return undefined;
    const valueEnd = endOfValue(frame, keyEnd, limits);
    if (valueEnd === undefined) return undefined;
    const key = tryUnpack(frame.subarray(position, keyEnd), keyLimits);
    parts.set(key, frame.subarray(keyEnd, valueEnd));
    position = valueEnd;
  }
  const head = parts.get('head');
  const body = parts.get('body');
  if (head === undefined || body === undefined) return undefined;
  const readHead = tryUnpack(head, headLimits);
  return isWireMap(readHead) ? { type: 'frame', head, mid: readHead.mid, body } : undefined;
}

/**
 * Returns the offset of the first entry in a map of two entries. The size of the map can be encoded
 * in three forms.
 */
function startOfEntries(frame: Uint8Array): number | undefined {
  if (frame[0] === mapOfTwo) return 1;
  const isLong = frame[0] === 0xde || frame[0] === 0xdf;
  const length = frame[0] === 0xde ? 3 : 5;
  const view = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
  return isLong && view.readUIntBE(1, length - 1) === 2 ? length : undefined;
}

function tryUnpack(packed: Uint8Array, limits: PayloadLimits): WireValue | undefined {
  try {
    return unpackWire(packed, limits);
  } catch {
    // If one part is invalid, the caller rejects the whole frame.
    return undefined;
  }
}

/** Whether the value is a message id of Salt: an integer or text [WIRE 4.2]. */
export function isMessageId(mid: WireValue | undefined): boolean {
  return Number.isSafeInteger(mid) || (typeof mid === 'string' && mid !== '');
}

/**
 * Encodes a reply as chunks to be written in order.
 * @param head - packed head of the request, as received
 * @param reply - packed reply
 */
export function encodeReplyFrame(head: Uint8Array, reply: Uint8Array): Uint8Array[] {
  return [Buffer.concat([Uint8Array.of(mapOfTwo), headKey, head, bodyKey]), reply];
}

/**
 * Encodes a publication as chunks. The last chunk is the envelope itself, which several connections
 * may share.
 */
export function encodePublicationFrame(envelope: Uint8Array): Uint8Array[] {
  const head = Uint8Array.of(emptyHead);
  const start = [Uint8Array.of(mapOfTwo), headKey, head, bodyKey, binHead(envelope.length)];
  return [Buffer.concat(start), envelope];
}

/** Returns the head of a MessagePack byte string of this length. */
export function binHead(length: number): Uint8Array {
  if (length <= 0xff) return Uint8Array.of(0xc4, length);
  const isShort = length <= 0xffff;
  const head = Buffer.alloc(isShort ? 3 : 5);
  head[0] = isShort ? 0xc5 : 0xc6;
  head.writeUIntBE(length, 1, head.length - 1);
  return head;
}
