/** The master's end over ZeroMQ: ROUTER and PUB, spoken by `zmtp.ts` over `node:net`. */

import { Buffer } from 'node:buffer';
import { MultiMap } from '#runtime';
import { PublicationReplayBuffer } from './publication-replay.ts';
import { type AnswerForm, RequestQueue, type RequestService } from './request-queue.ts';
import type { StreamConnection, StreamProtocol, StreamSession } from './stream-connection.ts';
import {
  type ConnectionLimits,
  createListener,
  createPortProtocol,
  type ListenerOptions,
  type PortProtocol,
} from './stream-listener.ts';
import {
  DEFAULT_SUBSCRIBER_QUEUE_LIMITS,
  type SubscriberQueueLimits,
  tryQueueMessage,
} from './subscriber-queue.ts';
import {
  BROADCAST_TOPIC,
  type MasterTransport,
  minionTopic,
  type OutgoingPublication,
  type PublishOutcome,
  type SubscriberInfo,
  SYNDIC_TOPIC,
} from './transport.ts';
import { type EncodedMessage, singleChunkMessage, toEncodedMessage } from './write-queue.ts';
import {
  EMPTY,
  encodeFrame,
  encodeMessage,
  FLAG_COMMAND,
  FLAG_MORE,
  type ZmtpFrameBreach,
  type ZmtpFrameFilter,
  ZmtpFrameReader,
} from './zmtp-frames.ts';

// ZMTP 3.0, the binding side, mechanism NULL, roles ROUTER and PUB: bytes ⇄ events, no I/O
// [RFC 23 of the ZeroMQ project, WIRE 4.1 "The bytes"].
//
//     greeting = signature:10 version:2 mechanism:20 as-server:1 filler:31
//     signature = ff padding:8 7f      version = 03 minor      mechanism = "NULL", zeros
//
// | state     | may come                                             | leads to  |
// |-----------|------------------------------------------------------|-----------|
// | greeting  | 64 bytes, each checked as it arrives                 | handshake |
// | handshake | READY with a Socket-Type that fits the role          | open      |
// | open      | messages, PING, PONG; for PUB SUBSCRIBE and CANCEL   | open      |
// | broken    | nothing: any breach leads here and stays             |           |

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
function encodePing(): Uint8Array {
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
function latin1(bytes: Uint8Array): string {
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

// One ZeroMQ peer: handshake and PING, for either role.

/** What the two roles do differently with a peer. */
interface ZeromqSession {
  /** A message of the peer, whole and within the limits. */
  onMessage(frames: readonly Uint8Array[]): void;
  /** The peer wants a topic, or no longer. */
  onSubscription(topic: string, isWanted: boolean): void;
  /** Part of what was queued has been written. */
  onWritten(): void;
  onClosed(): void;
  /** Finish what is under way, then {@link StreamConnection.endWhenWritten}. */
  finish(): void;
}

/** Breaches are the connection's own business. */
type PeerEvent = Exclude<ZmtpEvent, { readonly type: 'breach' }>;

function zeromqProtocol(
  role: ZmtpRole,
  limits: ZmtpLimits,
  openSession: (connection: StreamConnection) => ZeromqSession,
): StreamProtocol<PeerEvent> {
  return {
    greeting: encodeGreeting(),
    createDecoder: () => new ZmtpDecoder(role, limits),
    openSession: (connection) => new ZeromqPeer(connection, role, openSession(connection)),
  };
}

class ZeromqPeer implements StreamSession<PeerEvent> {
  readonly #connection: StreamConnection;
  readonly #role: ZmtpRole;
  readonly #session: ZeromqSession;

  constructor(connection: StreamConnection, role: ZmtpRole, session: ZeromqSession) {
    this.#connection = connection;
    this.#role = role;
    this.#session = session;
  }

  onEvent(event: PeerEvent): void {
    switch (event.type) {
      case 'greeting':
        this.#connection.send(singleChunkMessage(encodeReady(this.#role)));
        break;
      case 'ready':
        this.#connection.guarded.handshakeDone();
        break;
      case 'message':
        this.#session.onMessage(event.frames);
        break;
      case 'ping':
        this.#connection.send(singleChunkMessage(encodePong(event.context)));
        break;
      case 'subscribe':
      case 'cancel':
        this.#session.onSubscription(event.topic, event.type === 'subscribe');
        break;
    }
  }

  onWritten(): void {
    this.#session.onWritten();
  }

  onClosed(): void {
    this.#session.onClosed();
  }

  finish(): void {
    this.#session.finish();
  }
}

/** Who subscribed to what: ZeroMQ's rule is that a topic matches everything that begins with it. */
class TopicIndex<Subscriber extends object> {
  readonly #subscribers = new MultiMap<string, Subscriber>();
  /** How many topics there are of each length: only these prefixes are worth looking up. */
  readonly #lengths = new Map<number, number>();

  add(topic: string, subscriber: Subscriber): void {
    if (!this.#subscribers.add(topic, subscriber)) return;
    this.#lengths.set(topic.length, (this.#lengths.get(topic.length) ?? 0) + 1);
  }

  delete(topic: string, subscriber: Subscriber): void {
    if (!this.#subscribers.delete(topic, subscriber)) return;
    const left = (this.#lengths.get(topic.length) ?? 1) - 1;
    if (left === 0) this.#lengths.delete(topic.length);
    else this.#lengths.set(topic.length, left);
  }

  /** Those who subscribed to exactly this topic. */
  exact(topic: string): Iterable<Subscriber> {
    return this.#subscribers.get(topic);
  }

  /** Those who subscribed to anything. */
  everybody(): ReadonlySet<Subscriber> {
    return new Set(this.#subscribers.all());
  }

  /** The subscribed topics that are a beginning of `text` and shorter than it. */
  shorterPrefixes(text: string): string[] {
    const prefixes: string[] = [];
    for (const length of this.#lengths.keys()) {
      const prefix = text.slice(0, length);
      if (length < text.length && this.#subscribers.has(prefix)) prefixes.push(prefix);
    }
    return prefixes;
  }
}

// One peer of the publish socket: what it subscribed to and what waits for it.

/** What a subscription costs besides its bytes: entries in a list, a set and a map. */
const BYTES_PER_TOPIC = 128;

const noTopics: readonly string[] = [];

interface ZeromqSubscriberLimits extends SubscriberQueueLimits {
  readonly maxTopics: number;
  /** Between two PINGs, milliseconds. Default: none. */
  readonly pingMs?: number | undefined;
}

class ZeromqSubscriberSession implements ZeromqSession {
  readonly #connection: StreamConnection;
  readonly #index: TopicIndex<ZeromqSubscriberSession>;
  readonly #bounds: ZeromqSubscriberLimits;
  readonly #onFirstTopic: (session: ZeromqSubscriberSession) => void;
  #hasNamedTopics = false;
  /** Nearly always one: a list of that takes a third of what a set does. */
  #topics: readonly string[] = noTopics;
  #topicBytes = 0;
  readonly #pings: NodeJS.Timeout | undefined;

  constructor(
    connection: StreamConnection,
    index: TopicIndex<ZeromqSubscriberSession>,
    bounds: ZeromqSubscriberLimits,
    onFirstTopic: (session: ZeromqSubscriberSession) => void,
  ) {
    this.#connection = connection;
    this.#index = index;
    this.#bounds = bounds;
    this.#onFirstTopic = onFirstTopic;
    const { pingMs } = bounds;
    if (pingMs !== undefined) this.#pings = setInterval(() => this.#ping(), pingMs).unref();
  }

  get topics(): readonly string[] {
    return this.#topics;
  }

  describe(): SubscriberInfo {
    return {
      address: this.#connection.guarded.address,
      connectedAt: this.#connection.guarded.connectedAt,
      topics: this.#topics,
      minionIds: [],
      queuedBytes: this.#connection.queue.bytes,
    };
  }

  /** Queues a message; false if the queue is full and this subscriber goes without. */
  offer(message: EncodedMessage): boolean {
    return tryQueueMessage(this.#connection, message, this.#bounds);
  }

  /** Ends the connection, whatever waits for it. */
  disconnect(): void {
    this.#connection.guarded.end();
  }

  onMessage(): void {
    // The decoder turns every message to PUB into a subscription.
  }

  onSubscription(topic: string, isWanted: boolean): void {
    if (isWanted) this.#subscribe(topic);
    else this.#cancel(topic);
    this.#connection.setExtraBytes(this.#topicBytes);
    if (this.#hasNamedTopics) return;
    this.#hasNamedTopics = true;
    this.#onFirstTopic(this);
  }

  onWritten(): void {
    // Nothing waits outside the connection's queue.
  }

  onClosed(): void {
    clearInterval(this.#pings);
    for (const topic of this.#topics) this.#index.delete(topic, this);
    this.#topics = noTopics;
  }

  finish(): void {
    this.#connection.endWhenWritten();
  }

  /** The peer answers, so that neither side is silent to a relay. */
  #ping(): void {
    const isReady = this.#hasNamedTopics && this.#connection.queue.messages === 0;
    if (isReady) this.#connection.send(singleChunkMessage(encodePing()));
  }

  #subscribe(topic: string): void {
    if (this.#topics.includes(topic)) return;
    if (this.#topics.length >= this.#bounds.maxTopics) {
      this.#connection.refuse('too-many-topics');
      return;
    }
    this.#topics = this.#topics.concat(topic);
    this.#topicBytes += topic.length + BYTES_PER_TOPIC;
    this.#index.add(topic, this);
  }

  #cancel(topic: string): void {
    if (!this.#topics.includes(topic)) return;
    this.#topics = this.#topics.filter((other) => other !== topic);
    this.#topicBytes -= topic.length + BYTES_PER_TOPIC;
    this.#index.delete(topic, this);
  }
}

// The publish socket: what PUB does for SUB and XSUB peers [WIRE 4.1].

interface ZeromqPublisherOptions extends SubscriberQueueLimits {
  /** Salt's `zmq_filtering`: a topic frame before each envelope. Default false. */
  readonly filtering: boolean;
  /** Salt's `order_masters`: publications to ids go to the topic `syndic` too. Default false. */
  readonly orderMasters: boolean;
  /** Topics of one subscriber. Default 1000. */
  readonly maxTopics: number;
  /** Bytes of one topic. Default 256. */
  readonly maxTopicBytes: number;
}

const DEFAULT_ZEROMQ_PUBLISHER_OPTIONS: ZeromqPublisherOptions = {
  filtering: false,
  orderMasters: false,
  ...DEFAULT_SUBSCRIBER_QUEUE_LIMITS,
  // protection: topics-without-end
  maxTopics: 1000,
  maxTopicBytes: 256,
};

/** Sends publications to those whose topics match, each through a queue of its own. */
class ZeromqPublisher {
  readonly #options: ZeromqPublisherOptions;
  /** Those who listen. */
  readonly #index = new TopicIndex<ZeromqSubscriberSession>();
  readonly #held: PublicationReplayBuffer<ZeromqSubscriberSession>;

  constructor(options: ZeromqPublisherOptions) {
    this.#options = options;
    this.#held = new PublicationReplayBuffer(options, (publication, to) =>
      this.#sendTo(publication, to),
    );
  }

  openSession(connection: StreamConnection, pingMs?: number): ZeromqSubscriberSession {
    const bounds = pingMs === undefined ? this.#options : { ...this.#options, pingMs };
    return new ZeromqSubscriberSession(connection, this.#index, bounds, (session) =>
      this.#welcome(session),
    );
  }

  publish(publication: OutgoingPublication): PublishOutcome {
    this.#held.add(publication);
    return this.#send(publication, this.#index);
  }

  /** It is ready after this chunk: a peer names all its topics at once when it connects. */
  #welcome(session: ZeromqSubscriberSession): void {
    this.#held.addSubscriber(session);
    queueMicrotask(() => this.#held.replay(session));
  }

  #sendTo(publication: OutgoingPublication, session: ZeromqSubscriberSession): void {
    const index = new TopicIndex<ZeromqSubscriberSession>();
    for (const topic of session.topics) index.add(topic, session);
    this.#send(publication, index);
  }

  #send(
    publication: OutgoingPublication,
    index: TopicIndex<ZeromqSubscriberSession>,
  ): PublishOutcome {
    const delivery = new Delivery();
    if (this.#options.filtering) this.#sendByTopic(publication, index, delivery);
    else this.#sendToAll(publication.envelope, index, delivery);
    return { queued: delivery.reached.size, skipped: delivery.skipped.size };
  }

  /** Ends the subscribers that asked for this minion's own topic. */
  disconnect(minionId: string): void {
    if (!this.#options.filtering) return;
    for (const session of [...this.#index.exact(minionTopic(minionId))]) session.disconnect();
  }

  subscribers(): SubscriberInfo[] {
    return Array.from(this.#index.everybody(), (session) => session.describe());
  }

  /** Without topics the message itself is what subscriptions match. */
  #sendToAll(
    envelope: Uint8Array,
    index: TopicIndex<ZeromqSubscriberSession>,
    delivery: Delivery,
  ): void {
    const message = toEncodedMessage(encodeMessage([envelope]));
    const beginning = latin1(envelope.subarray(0, this.#options.maxTopicBytes));
    for (const prefix of [beginning, ...index.shorterPrefixes(beginning)]) {
      for (const session of index.exact(prefix)) delivery.offerOnce(session, message);
    }
  }

  /**
   * One message for each topic to those who named it. A subscriber by a shorter prefix, mostly `''`
   * of a minion that does not filter, gets the first that matches and no more: the envelope is the
   * same in all, and the minion would only drop the others by their jid.
   */
  #sendByTopic(
    { envelope, minionIds }: OutgoingPublication,
    index: TopicIndex<ZeromqSubscriberSession>,
    delivery: Delivery,
  ): void {
    const firstOfPrefix = new Map<string, string>();
    for (const topic of this.#topicsFor(minionIds)) {
      let message: EncodedMessage | undefined;
      for (const session of index.exact(topic)) {
        message ??= topicMessage(topic, envelope);
        delivery.offer(session, message);
      }
      for (const prefix of index.shorterPrefixes(topic)) {
        if (!firstOfPrefix.has(prefix)) firstOfPrefix.set(prefix, topic);
      }
    }
    for (const [prefix, topic] of firstOfPrefix) {
      const message = topicMessage(topic, envelope);
      for (const session of index.exact(prefix)) delivery.offerOnce(session, message);
    }
  }

  #topicsFor(minionIds: readonly string[] | null): readonly string[] {
    if (minionIds === null) return [BROADCAST_TOPIC];
    const topics = Array.from(new Set(minionIds), minionTopic);
    if (this.#options.orderMasters && topics.length > 0) topics.push(SYNDIC_TOPIC);
    return topics;
  }
}

/** Who was reached by one publication, and who was passed over. */
class Delivery {
  readonly reached = new Set<ZeromqSubscriberSession>();
  readonly skipped = new Set<ZeromqSubscriberSession>();

  offer(session: ZeromqSubscriberSession, message: EncodedMessage): void {
    if (session.offer(message)) this.reached.add(session);
    else this.skipped.add(session);
  }

  offerOnce(session: ZeromqSubscriberSession, message: EncodedMessage): void {
    if (!this.reached.has(session)) this.offer(session, message);
  }
}

function topicMessage(topic: string, envelope: Uint8Array): EncodedMessage {
  return toEncodedMessage(encodeMessage([Buffer.from(topic, 'latin1'), envelope]));
}

// The request socket: what ROUTER does for REQ and DEALER peers [WIRE 4.1].
//
// request = *envelope empty body      answer = the same envelope, empty, answer
//
// REQ sends no envelope; a DEALER may send some frames, which come back with its answer.

/** As long as a routing id may be [RFC 23]. */
const MAX_ENVELOPE_FRAME_BYTES = 255;

/** The frames up to and including the empty one. */
type RoutingEnvelope = readonly Uint8Array[];

const ANSWER_FORM: AnswerForm<RoutingEnvelope> = {
  encode: (envelope, answer) => toEncodedMessage(encodeMessage([...envelope, answer])),
  isOrdered: true,
};

/** Answers the requests of one connection: side by side, but the answers leave in order. */
class ZeromqRequestSession implements ZeromqSession {
  readonly #connection: StreamConnection;
  readonly #queue: RequestQueue<RoutingEnvelope>;

  constructor(connection: StreamConnection, service: RequestService) {
    this.#connection = connection;
    this.#queue = new RequestQueue(connection, service, ANSWER_FORM);
  }

  onMessage(frames: readonly Uint8Array[]): void {
    const request = splitRequest(frames);
    if (request === undefined) this.#connection.refuse('bad-request');
    else this.#queue.take(request.envelope, request.body);
  }

  onSubscription(): void {
    // The decoder lets no ROUTER peer subscribe.
  }

  onWritten(): void {
    this.#queue.onWritten();
  }

  onClosed(): void {
    this.#queue.onClosed();
  }

  finish(): void {
    this.#queue.finish();
  }
}

/** `undefined` for what is no request: no empty frame, or not exactly one frame behind it. */
function splitRequest(
  frames: readonly Uint8Array[],
): { readonly envelope: RoutingEnvelope; readonly body: Uint8Array } | undefined {
  const empty = frames.findIndex((frame) => frame.length === 0);
  const body = frames[empty + 1];
  if (empty === -1 || body === undefined || frames.length !== empty + 2) return undefined;
  const envelope = frames.slice(0, empty + 1);
  return envelope.some((frame) => frame.length > MAX_ENVELOPE_FRAME_BYTES)
    ? undefined
    : { envelope, body };
}

/** Options of {@link createZeromqListener}; each has a default. */
export interface ZeromqListenerOptions extends ListenerOptions, Partial<ZeromqPublisherOptions> {}

/** Makes a listener that is not bound yet: {@link MasterTransport.listen} does that. */
export function createZeromqListener(options: ZeromqListenerOptions = {}): MasterTransport {
  const publisherOptions = { ...DEFAULT_ZEROMQ_PUBLISHER_OPTIONS, ...options };
  const publisher = new ZeromqPublisher(publisherOptions);
  return createListener(
    {
      name: 'zeromq',
      publisher,
      requests: createRequestPort,
      publications: (_announce, _publishPort, pingMs) =>
        createPublishPort(publisher, publisherOptions, pingMs),
    },
    options,
  );
}

/** A listener with a request port alone, for programs on the master's host: nobody subscribes. */
export function createZeromqRequestListener(
  options: Omit<ListenerOptions, 'publishPort'>,
): MasterTransport {
  const publisher = { publish: () => ({ queued: 0, skipped: 0 }), subscribers: () => [] };
  return createListener({ name: 'zeromq', publisher, requests: createRequestPort }, options);
}

function createRequestPort(
  service: RequestService,
  { maxMessageBytes }: Pick<ConnectionLimits, 'maxMessageBytes'>,
): PortProtocol {
  return createPortProtocol(
    { awaitsRequest: true, hasHandshake: true, keepsStalled: false },
    zeromqProtocol(
      'ROUTER',
      { ...DEFAULT_ZMTP_LIMITS, maxMessageBytes },
      (connection) => new ZeromqRequestSession(connection, service),
    ),
  );
}

function createPublishPort(
  publisher: ZeromqPublisher,
  { maxTopicBytes }: ZeromqPublisherOptions,
  pingMs: number | undefined,
): PortProtocol {
  return createPortProtocol(
    { awaitsRequest: false, hasHandshake: true, keepsStalled: false },
    zeromqProtocol(
      'PUB',
      // A peer of PUB has nothing to say but subscriptions: one byte and the topic.
      { ...DEFAULT_ZMTP_LIMITS, maxMessageBytes: 1 + maxTopicBytes, maxTopicBytes },
      (connection) => publisher.openSession(connection, pingMs),
    ),
  );
}
