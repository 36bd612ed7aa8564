/**
 * ZMTP 3.0, the binding side, mechanism NULL, roles ROUTER and PUB: bytes ⇄ events, no I/O
 * [RFC 23 of the ZeroMQ project, WIRE 4.1 "The bytes"].
 *
 *     greeting = signature:10 version:2 mechanism:20 as-server:1 filler:31
 *     signature = ff padding:8 7f      version = 03 minor      mechanism = "NULL", zeros
 *
 * | state     | may come                                             | leads to  |
 * |-----------|------------------------------------------------------|-----------|
 * | greeting  | 64 bytes, each checked as it arrives                 | handshake |
 * | handshake | READY with a Socket-Type that fits the role          | open      |
 * | open      | messages, PING, PONG; for PUB SUBSCRIBE and CANCEL   | open      |
 * | broken    | nothing: any breach leads here and stays             |           |
 */

import { ByteAssembly } from './byte-assembly.ts';

// Frames of ZMTP 3 [RFC 23, WIRE 4.1].
//
// frame  = flags length body
// flags  = 1 byte: 01 more follow, 02 eight-byte length, 04 command; the rest reserved
// length = 1 byte, or 8 bytes in network order

const FLAG_MORE = 0x01;
const FLAG_LONG = 0x02;
const FLAG_COMMAND = 0x04;
const RESERVED_FLAGS = 0xf8;

/** Below this a body is copied behind its header: one write is cheaper than two. */
const COPY_BELOW_BYTES = 4096;

const EMPTY: Uint8Array = new Uint8Array(0);

/** Ways in which a header alone breaks the protocol. */
export type ZmtpFrameBreach = 'reserved-flags' | 'command-with-more' | 'frame-length';

/** The result of {@link ZmtpFrameReader.next}: a frame, the end of the input, or a protocol error. */
export type ZmtpFrameStep<Refusal extends string> = 'frame' | 'starved' | ZmtpFrameBreach | Refusal;

/** Whoever frames are read for. */
export interface ZmtpFrameFilter<Refusal extends string> {
  /**
   * Decides by its prefix whether a frame may arrive at all: gives a reason to refuse it.
   * @param length what the peer claims; nothing has been allocated for it
   */
  admit(flags: number, length: number): Refusal | undefined;
}

/**
 * Cuts a byte stream into frames. A body that lies whole in one chunk is a view of that chunk;
 * only one that spans chunks is copied. After a breach the reader is of no further use.
 */
export class ZmtpFrameReader<Refusal extends string> {
  /** Flags of the frame that `next()` reported last. */
  flags = 0;
  /** Body of that frame, until the next call. */
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

  /** Memory taken by the body that has not arrived completely. */
  get heldBytes(): number {
    return this.#assembly?.capacity ?? 0;
  }

  /** Whether a frame has begun and not ended. */
  get isMidFrame(): boolean {
    return this.#phase !== 'flags';
  }

  /** Gives the next piece of the stream; the previous one must be used up (`'starved'`). */
  feed(chunk: Uint8Array, position = 0): void {
    this.#chunk = chunk;
    this.#position = position;
  }

  /** Lets go of what was gathered; nothing is read after this. */
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
      // Above 2^53 this rounds, far beyond what any limit admits.
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
    // A view would keep the whole chunk for as long as an idle peer is silent.
    this.body = EMPTY;
    return 'starved';
  }
}

/** One frame, header and body in one buffer. */
function encodeFrame(body: Uint8Array, flags: number): Uint8Array {
  const frame = new Uint8Array(headerBytes(body.length) + body.length);
  frame.set(body, writeHeader(frame, 0, body.length, flags));
  return frame;
}

/**
 * One message of at least one frame, as chunks to be written one after the other. All is copied
 * but a last body of 4 KiB or more, which is handed through: it may be shared between peers.
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

// Commands of ZMTP 3 [RFC 23 "Commands", RFC 37 for PING, PONG, SUBSCRIBE and CANCEL].
//
// command  = name-length:1 name data
// READY    data = *property        property = name-length:1 name value-length:4 value
// PING     data = ttl:2 context    PONG data = context

const text = new TextEncoder();

/** A command cut in two. The data is a view of the frame. */
export interface ZmtpCommand {
  readonly name: string;
  readonly data: Uint8Array;
}

/** Splits a command frame's body; `undefined` if the name is empty or longer than the frame. */
function parseCommand(body: Uint8Array): ZmtpCommand | undefined {
  const nameLength = body[0] ?? 0;
  if (nameLength === 0 || body.length < 1 + nameLength) return undefined;
  return { name: latin1(body.subarray(1, 1 + nameLength)), data: body.subarray(1 + nameLength) };
}

/**
 * The properties of a READY command, names in lower case (RFC 23: names are not case-sensitive).
 * `undefined` if one overruns the frame, has no name or appears twice.
 */
function parseProperties(data: Uint8Array): Map<string, Uint8Array> | undefined {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const properties = new Map<string, Uint8Array>();
  let offset = 0;
  while (offset < data.length) {
    const nameEnd = offset + 1 + view.getUint8(offset);
    if (nameEnd === offset + 1 || nameEnd + 4 > data.length) return undefined;
    const valueEnd = nameEnd + 4 + view.getUint32(nameEnd);
    const name = latin1(data.subarray(offset + 1, nameEnd)).toLowerCase();
    if (valueEnd > data.length || properties.has(name)) return undefined;
    properties.set(name, data.subarray(nameEnd + 4, valueEnd));
    offset = valueEnd;
  }
  return properties;
}

/** READY with a Socket-Type and nothing else, which is what ROUTER and PUB of libzmq peers need. */
export function encodeReady(socketType: string): Uint8Array {
  const name = text.encode('Socket-Type');
  const value = text.encode(socketType);
  const data = new Uint8Array(1 + name.length + 4 + value.length);
  data[0] = name.length;
  data.set(name, 1);
  new DataView(data.buffer).setUint32(1 + name.length, value.length);
  data.set(value, 1 + name.length + 4);
  return encodeCommand('READY', data);
}

/** PING without a time to live and a context [RFC 37]. */
export function encodePing(): Uint8Array {
  return encodeCommand('PING', new Uint8Array(2));
}

/** PONG, giving back the context of a PING [RFC 37]. */
export function encodePong(context: Uint8Array): Uint8Array {
  return encodeCommand('PONG', context);
}

function encodeCommand(name: string, data: Uint8Array): Uint8Array {
  const encodedName = text.encode(name);
  const body = new Uint8Array(1 + encodedName.length + data.length);
  body[0] = encodedName.length;
  body.set(encodedName, 1);
  body.set(data, 1 + encodedName.length);
  return encodeFrame(body, FLAG_COMMAND);
}

/** Bytes as text without loss, whatever they are. */
export function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

/** The sockets that a Salt master binds. */
export type ZmtpRole = 'ROUTER' | 'PUB';

/** What a connection is closed for; a closed list, fit for counting. */
export type ZmtpBreach =
  | ZmtpFrameBreach
  | 'signature'
  | 'version'
  | 'mechanism'
  | 'message-before-ready'
  | 'message-too-large'
  | 'too-many-parts'
  | 'command-too-large'
  | 'bad-command'
  | 'unexpected-command'
  | 'peer-error'
  | 'bad-metadata'
  | 'socket-type'
  | 'bad-subscription'
  | 'topic-too-long';

/**
 * What a peer did. Byte arrays belong to the receiver of the event; they may be views of the chunk
 * that was pushed, so keep a copy of a small part that must live long.
 */
export type ZmtpEvent =
  /** The peer's greeting is complete: time to send READY. */
  | { readonly type: 'greeting' }
  /** The handshake is complete. */
  | { readonly type: 'ready'; readonly socketType: string }
  | { readonly type: 'message'; readonly frames: readonly Uint8Array[] }
  /** To be answered by {@link encodePong} with the same context. */
  | { readonly type: 'ping'; readonly context: Uint8Array }
  /** Topics as latin1 text, so that no byte is lost. */
  | { readonly type: 'subscribe' | 'cancel'; readonly topic: string }
  /** The peer broke the protocol; nothing comes after this. */
  | { readonly type: 'breach'; readonly reason: ZmtpBreach };

/** Bounds of one connection. */
export interface ZmtpLimits {
  /** All frames of a message together, bytes. */
  readonly maxMessageBytes: number;
  /** Frames in a message. */
  readonly maxParts: number;
  /** Body of a command frame, bytes. */
  readonly maxCommandBytes: number;
  /** One subscription, bytes. */
  readonly maxTopicBytes: number;
}

export const DEFAULT_ZMTP_LIMITS: ZmtpLimits = {
  maxMessageBytes: 16 * 1024 * 1024,
  maxParts: 16,
  maxCommandBytes: 4096,
  maxTopicBytes: 256,
};

const GREETING_BYTES = 64;
const MECHANISM_OFFSET = 12;
const MECHANISM_BYTES = 20;
const NULL_MECHANISM: Uint8Array = new TextEncoder().encode('NULL');
const MAX_PING_CONTEXT_BYTES = 16;

const PEERS: Readonly<Record<ZmtpRole, readonly string[]>> = {
  ROUTER: ['REQ', 'DEALER'],
  PUB: ['SUB', 'XSUB'],
};

/** Our greeting: version 3.0, so that SUB peers subscribe by message. */
export function encodeGreeting(): Uint8Array {
  const greeting = new Uint8Array(GREETING_BYTES);
  greeting[0] = 0xff;
  greeting[9] = 0x7f;
  greeting[10] = 3;
  greeting.set(NULL_MECHANISM, MECHANISM_OFFSET);
  return greeting;
}

/** The reading half of one connection. Takes chunks of any size. */
export class ZmtpDecoder implements ZmtpFrameFilter<ZmtpBreach> {
  readonly #role: ZmtpRole;
  readonly #limits: ZmtpLimits;
  readonly #reader: ZmtpFrameReader<ZmtpBreach>;
  #state: 'greeting' | 'handshake' | 'open' | 'broken' = 'greeting';
  #greetingBytes = 0;
  #parts: Uint8Array[] = [];
  #partBytes = 0;

  constructor(role: ZmtpRole, limits: ZmtpLimits = DEFAULT_ZMTP_LIMITS) {
    this.#role = role;
    this.#limits = limits;
    this.#reader = new ZmtpFrameReader(this);
  }

  /** Memory held for a message that has not arrived completely, bytes. */
  get heldBytes(): number {
    return this.#partBytes + this.#reader.heldBytes;
  }

  /** Whether a message or command has begun and not ended. */
  get isMidMessage(): boolean {
    return this.#parts.length > 0 || this.#reader.isMidFrame;
  }

  /** The events that `chunk` completes, in order. After a breach: none. */
  push(chunk: Uint8Array): ZmtpEvent[] {
    const events: ZmtpEvent[] = [];
    if (this.#state === 'broken') return events;
    const breach = this.#read(chunk, events);
    if (breach !== undefined) {
      this.#break();
      events.push({ type: 'breach', reason: breach });
    }
    return events;
  }

  #read(chunk: Uint8Array, events: ZmtpEvent[]): ZmtpBreach | undefined {
    let position = 0;
    while (this.#state === 'greeting') {
      const byte = chunk[position];
      if (byte === undefined) return undefined;
      const breach = greetingBreach(this.#greetingBytes, byte);
      if (breach !== undefined) return breach;
      position += 1;
      this.#greetingBytes += 1;
      if (this.#greetingBytes < GREETING_BYTES) continue;
      this.#state = 'handshake';
      events.push({ type: 'greeting' });
    }
    return this.#readFrames(chunk, position, events);
  }

  #readFrames(chunk: Uint8Array, position: number, events: ZmtpEvent[]): ZmtpBreach | undefined {
    const partsBefore = this.#parts;
    const ownedParts = partsBefore.length;
    this.#reader.feed(chunk, position);
    for (let step = this.#reader.next(); ; step = this.#reader.next()) {
      if (step === 'starved') {
        this.#ownParts(this.#parts === partsBefore ? ownedParts : 0);
        return undefined;
      }
      if (step !== 'frame') return step;
      const breach = this.#takeFrame(events);
      if (breach !== undefined) return breach;
    }
  }

  /** Copies parts that are views of the chunk: a few bytes must not keep all of it in memory. */
  #ownParts(from: number): void {
    for (let index = from; index < this.#parts.length; index += 1) {
      this.#parts[index] = new Uint8Array(this.#parts[index] ?? EMPTY);
    }
  }

  /** For the reader of frames only. */
  admit(flags: number, length: number): ZmtpBreach | undefined {
    if ((flags & FLAG_COMMAND) !== 0) {
      return length > this.#limits.maxCommandBytes ? 'command-too-large' : undefined;
    }
    if (this.#state !== 'open') return 'message-before-ready';
    // protection: long-messages
    if (this.#partBytes + length > this.#limits.maxMessageBytes) return 'message-too-large';
    const parts = this.#parts.length + ((flags & FLAG_MORE) !== 0 ? 2 : 1);
    return parts > this.#limits.maxParts ? 'too-many-parts' : undefined;
  }

  #takeFrame(events: ZmtpEvent[]): ZmtpBreach | undefined {
    const { flags, body } = this.#reader;
    if ((flags & FLAG_COMMAND) !== 0) return this.#takeCommand(body, events);
    this.#parts.push(body);
    this.#partBytes += body.length;
    if ((flags & FLAG_MORE) !== 0) return undefined;
    const frames = this.#parts;
    this.#parts = [];
    this.#partBytes = 0;
    if (this.#role === 'PUB') return this.#takeSubscription(frames, events);
    events.push({ type: 'message', frames });
    return undefined;
  }

  #takeCommand(body: Uint8Array, events: ZmtpEvent[]): ZmtpBreach | undefined {
    const command = parseCommand(body);
    if (command === undefined) return 'bad-command';
    if (command.name === 'ERROR') return 'peer-error';
    if (this.#state === 'handshake') return this.#takeReady(command, events);
    switch (command.name) {
      case 'PING':
        return takePing(command.data, events);
      case 'PONG':
        return undefined;
      case 'SUBSCRIBE':
      case 'CANCEL':
        if (this.#role !== 'PUB') return 'unexpected-command';
        return this.#changeTopic(command.name === 'SUBSCRIBE', command.data, events);
      default:
        return 'unexpected-command';
    }
  }

  #takeReady(command: ZmtpCommand, events: ZmtpEvent[]): ZmtpBreach | undefined {
    if (command.name !== 'READY') return 'unexpected-command';
    const properties = parseProperties(command.data);
    if (properties === undefined) return 'bad-metadata';
    const socketType = latin1(properties.get('socket-type') ?? EMPTY);
    if (!PEERS[this.#role].includes(socketType)) return 'socket-type';
    this.#state = 'open';
    events.push({ type: 'ready', socketType });
    return undefined;
  }

  #takeSubscription(frames: readonly Uint8Array[], events: ZmtpEvent[]): ZmtpBreach | undefined {
    const [body = EMPTY, ...more] = frames;
    const sign = body[0];
    if (more.length > 0 || (sign !== 0 && sign !== 1)) return 'bad-subscription';
    return this.#changeTopic(sign === 1, body.subarray(1), events);
  }

  #changeTopic(
    isSubscribe: boolean,
    topic: Uint8Array,
    events: ZmtpEvent[],
  ): ZmtpBreach | undefined {
    if (topic.length > this.#limits.maxTopicBytes) return 'topic-too-long';
    events.push({ type: isSubscribe ? 'subscribe' : 'cancel', topic: latin1(topic) });
    return undefined;
  }

  #break(): void {
    this.#state = 'broken';
    this.#parts = [];
    this.#partBytes = 0;
    this.#reader.release();
  }
}

/**
 * What is wrong with one byte of a greeting. Padding, minor version, as-server and filler are not
 * looked at [RFC 23: not significant], so the rest needs no memory but the offset.
 */
// protection: other-protocols
function greetingBreach(offset: number, byte: number): ZmtpBreach | undefined {
  if (offset === 0) return byte === 0xff ? undefined : 'signature';
  if (offset === 9) return byte === 0x7f ? undefined : 'signature';
  if (offset === 10) return byte >= 3 ? undefined : 'version';
  const inMechanism = offset - MECHANISM_OFFSET;
  if (inMechanism < 0 || inMechanism >= MECHANISM_BYTES) return undefined;
  return byte === (NULL_MECHANISM[inMechanism] ?? 0) ? undefined : 'mechanism';
}

function takePing(data: Uint8Array, events: ZmtpEvent[]): ZmtpBreach | undefined {
  const context = data.subarray(2);
  if (data.length < 2 || context.length > MAX_PING_CONTEXT_BYTES) return 'bad-command';
  events.push({ type: 'ping', context });
  return undefined;
}
