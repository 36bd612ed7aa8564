/**
 * Implements ZMTP 3.0 for sockets that accept connections, with the mechanism NULL and the roles
 * ROUTER and PUB. Decodes received bytes to events and encodes the greeting, without I/O [RFC 23 of
 * the ZeroMQ project, WIRE 4.1 "The bytes"].
 *
 *     greeting = signature:10 version:2 mechanism:20 as-server:1 filler:31
 *     signature = ff padding:8 7f      version = 03 minor      mechanism = "NULL", zeros
 *
 * | state     | accepted input                                                  | leads to  |
 * |-----------|-----------------------------------------------------------------|-----------|
 * | greeting  | 64 bytes, each checked as it arrives                            | handshake |
 * | handshake | READY with a Socket-Type that fits the role                     | open      |
 * | open      | messages, PING, PONG; in the role PUB also SUBSCRIBE and CANCEL | open      |
 * | broken    | nothing; any violation leads to this final state                |           |
 */

import { latin1, parseCommand, parseProperties, type ZmtpCommand } from './zmtp-commands.ts';
import {
  EMPTY,
  FLAG_COMMAND,
  FLAG_MORE,
  type ZmtpFrameBreach,
  type ZmtpFrameFilter,
  ZmtpFrameReader,
} from './zmtp-frames.ts';

/** Sockets that a Salt master binds. */
export type ZmtpRole = 'ROUTER' | 'PUB';

/**
 * Reason for closing a connection. The number of reasons is fixed, so that a metric label can
 * contain them.
 */
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
 * An event of a peer. The receiver owns the byte arrays. They may be views of the received chunk,
 * so copy a small part before storing it for long.
 */
export type ZmtpEvent =
  /** The peer's greeting is complete. READY can be sent. */
  | { readonly type: 'greeting' }
  /** The handshake is complete. */
  | { readonly type: 'ready'; readonly socketType: string }
  | { readonly type: 'message'; readonly frames: readonly Uint8Array[] }
  /**
   * The peer has sent a PING. It expects a PONG with the same context, which {@link encodePong}
   * returns.
   */
  | { readonly type: 'ping'; readonly context: Uint8Array }
  /** The topic is latin1 text, so that no byte is lost. */
  | { readonly type: 'subscribe' | 'cancel'; readonly topic: string }
  /** The peer violated the protocol. No event follows. */
  | { readonly type: 'breach'; readonly reason: ZmtpBreach };

/** Limits of one connection. */
export interface ZmtpLimits {
  /** Maximum size of a message, all frames together, in bytes. */
  readonly maxMessageBytes: number;
  /** Maximum number of frames in a message. */
  readonly maxParts: number;
  /** Maximum size of a command frame's body, in bytes. */
  readonly maxCommandBytes: number;
  /** Maximum size of a subscription, in bytes. */
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

/**
 * Returns the greeting of the master. Its version is 3.0. SUB peers therefore subscribe with a
 * message, and not with the command SUBSCRIBE of version 3.1.
 */
export function encodeGreeting(): Uint8Array {
  const greeting = new Uint8Array(GREETING_BYTES);
  greeting[0] = 0xff;
  greeting[9] = 0x7f;
  greeting[10] = 3;
  greeting.set(NULL_MECHANISM, MECHANISM_OFFSET);
  return greeting;
}

/** Decodes the received bytes of one connection. It accepts chunks of any size. */
export class ZmtpDecoder implements ZmtpFrameFilter<ZmtpBreach> {
  /** Number of bytes of the last chunk that `push` has read. */
  consumedBytes = 0;
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

  /** Memory held for an incomplete message, in bytes. */
  get heldBytes(): number {
    return this.#partBytes + this.#reader.heldBytes;
  }

  /** Whether a message or command is incomplete. */
  get isMidMessage(): boolean {
    return this.#parts.length > 0 || this.#reader.isMidFrame;
  }

  /**
   * Returns the events that `chunk` completes, in order. After a protocol violation it returns
   * none. {@link consumedBytes} is the number of bytes that were read.
   * @param maxEvents - number of events after which the decoder stops reading. Default: no limit
   */
  push(chunk: Uint8Array, maxEvents = Infinity): ZmtpEvent[] {
    const events: ZmtpEvent[] = [];
    this.consumedBytes = chunk.length;
    if (this.#state === 'broken') return events;
    const breach = this.#read(chunk, events, maxEvents);
    if (breach !== undefined) {
      this.#break();
      events.push({ type: 'breach', reason: breach });
    }
    return events;
  }

  #read(chunk: Uint8Array, events: ZmtpEvent[], maxEvents: number): ZmtpBreach | undefined {
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
    return this.#readFrames(chunk, position, events, maxEvents);
  }

  #readFrames(
    chunk: Uint8Array,
    position: number,
    events: ZmtpEvent[],
    maxEvents: number,
  ): ZmtpBreach | undefined {
    const partsBefore = this.#parts;
    const ownedParts = partsBefore.length;
    this.#reader.feed(chunk, position);
    while (events.length < maxEvents) {
      const step = this.#reader.next();
      if (step === 'starved') break;
      if (step !== 'frame') return step;
      const breach = this.#takeFrame(events);
      if (breach !== undefined) return breach;
    }
    this.consumedBytes = chunk.length - this.#reader.dropUnread();
    this.#ownParts(this.#parts === partsBefore ? ownedParts : 0);
    return undefined;
  }

  /**
   * Copies the frames of an incomplete message that still refer to the received chunk. Otherwise, a
   * frame of a few bytes would keep the whole chunk in memory.
   * @param from - index of the first frame to copy
   */
  #ownParts(from: number): void {
    for (let index = from; index < this.#parts.length; index += 1) {
      this.#parts[index] = new Uint8Array(this.#parts[index] ?? EMPTY);
    }
  }

  /**
   * Returns the reason to reject a frame, or `undefined` if the frame is permitted. Only the frame
   * reader calls this method.
   */
  admit(flags: number, length: number): ZmtpBreach | undefined {
    if ((flags & FLAG_COMMAND) !== 0) {
      return length > this.#limits.maxCommandBytes ? 'command-too-large' : undefined;
    }
    if (this.#state !== 'open') return 'message-before-ready';
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
 * Checks one byte of the greeting. Returns the protocol violation, or `undefined`. The check
 * depends only on the offset and the byte. Padding, minor version, as-server and filler may have
 * any value [RFC 23: not significant].
 */
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
