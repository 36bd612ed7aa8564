/**
 * Frames of Salt's TCP transport: bytes ⇄ frames, no I/O [WIRE 4.2; salt/transport/tcp.py,
 * salt/transport/frame.py].
 *
 *     stream = *frame
 *     frame  = MessagePack map {head: map, body: any}      no length before it
 *
 *     request      {head: {mid: integer or text}, body: envelope}
 *     reply        {head: that of the request, body: reply}
 *     publication  {head: {}, body: bin(packed envelope)}
 *     presence     {head: {}, body: {enc, load, version}}
 *
 * Head and body are handed on as they were packed: nothing is decoded only to be packed again.
 */
import { ByteAssembly } from './byte-assembly.ts';
import { clearLimits, type PayloadLimits, unpackWire } from './payload.ts';
import { endOfValue, PayloadScanner, type ScanBreach } from './payload-scanner.ts';
import { isWireMap, type WireValue } from './wire-value.ts';

/** What a connection is closed for. */
export type TcpBreach = ScanBreach | 'bad-frame';

/** What a peer sent. */
export type TcpEvent =
  | {
      readonly type: 'frame';
      /** Packed, to be sent back with the reply. */
      readonly head: Uint8Array;
      readonly mid: WireValue | undefined;
      /** Packed; a view of what arrived. */
      readonly body: Uint8Array;
    }
  /** The peer broke the protocol; nothing comes after this. */
  | { readonly type: 'breach'; readonly reason: TcpBreach };

/** A head holds a message id; nothing else was ever in one. */
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

/** The reading half of one connection. Takes chunks of any size. */
export class TcpFrameDecoder {
  readonly #limits: PayloadLimits;
  #scanner: PayloadScanner;
  #assembly: ByteAssembly | undefined;
  #isBroken = false;

  /** @param maxBodyBytes largest body; depth and elements are those of envelopes */
  constructor(maxBodyBytes: number) {
    this.#limits = {
      ...clearLimits,
      maxBytes: maxBodyBytes + frameOverhead,
      maxDepth: clearLimits.maxDepth + 1,
    };
    this.#scanner = new PayloadScanner(this.#limits);
  }

  /** Memory held for a frame that has not arrived completely, bytes. */
  get heldBytes(): number {
    return this.#assembly?.capacity ?? 0;
  }

  get isMidMessage(): boolean {
    return this.#assembly !== undefined;
  }

  /** The events that `chunk` completes, in order. After a breach: none. */
  push(chunk: Uint8Array): TcpEvent[] {
    const events: TcpEvent[] = [];
    for (let start = 0; start < chunk.length && !this.#isBroken; ) {
      const end = this.#scanner.scan(chunk, start);
      const { breach } = this.#scanner;
      if (breach !== undefined) events.push(this.#break(breach));
      else if (this.#scanner.isComplete) events.push(this.#finish(chunk.subarray(start, end)));
      else this.#gather(chunk.subarray(start));
      start = end;
    }
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

/** `undefined` for a value that is not `{head: map, body: any}`. */
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

/** Behind the head of a map of two, which three forms can say. */
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
    // Whatever is wrong with a part, the frame is no frame.
    return undefined;
  }
}

/** Whether it is a message id of Salt: an integer, or text [WIRE 4.2]. */
export function isMessageId(mid: WireValue | undefined): boolean {
  return Number.isSafeInteger(mid) || (typeof mid === 'string' && mid !== '');
}

/**
 * A reply, as chunks to be written one after the other.
 * @param head that of the request, packed, as it came
 * @param reply packed
 */
export function encodeReplyFrame(head: Uint8Array, reply: Uint8Array): Uint8Array[] {
  return [Buffer.concat([Uint8Array.of(mapOfTwo), headKey, head, bodyKey]), reply];
}

/** A publication, as chunks of which the last is the envelope itself: it may be shared. */
export function encodePublicationFrame(envelope: Uint8Array): Uint8Array[] {
  const head = Uint8Array.of(emptyHead);
  const start = [Uint8Array.of(mapOfTwo), headKey, head, bodyKey, binHead(envelope.length)];
  return [Buffer.concat(start), envelope];
}

/** The head of a MessagePack byte string of this many bytes. */
export function binHead(length: number): Uint8Array {
  if (length <= 0xff) return Uint8Array.of(0xc4, length);
  const isShort = length <= 0xffff;
  const head = Buffer.alloc(isShort ? 3 : 5);
  head[0] = isShort ? 0xc5 : 0xc6;
  head.writeUIntBE(length, 1, head.length - 1);
  return head;
}
