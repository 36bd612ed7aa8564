/**
 * Clients of an attacker for the three transports. They use only sockets and bytes, and no code of
 * the master.
 */
import type { ExecutionContext } from 'ava';
import { Dealer, Subscriber } from 'zeromq';
import { isWireMap, unpackWire, type WireMap, wireBytes } from '#minion-protocol';
import { until, within } from '../helpers/deadline.ts';
import { clientFrame, OPENING, SUBSCRIPTION } from '../helpers/stream-masters.ts';
import { connectRaw, type RawPeer } from '../helpers/zeromq-master.ts';

export const WIRES = ['zeromq', 'tcp', 'ws'] as const;
export type Wire = (typeof WIRES)[number];

/** A client of the request port, which sends one request at a time. */
export interface Door {
  ask(request: Uint8Array): Promise<Buffer>;
}

/** The bytes of `{head: {mid: 1}, body: …}` before the body. */
const tcpHead = Buffer.from('82a46865616481a36d696401a4626f6479', 'hex');

/** Number of requests of one connection. The master ends connections with more refused ones. */
const requestsPerConnection = 100;

/** Opens a client of the request port. After some requests, it opens a new connection. */
export async function openDoor(t: ExecutionContext, wire: Wire, port: number): Promise<Door> {
  let connection = await connect(t, wire, port);
  let asked = 0;
  return {
    ask: async (request) => {
      asked += 1;
      if (asked % requestsPerConnection === 0) connection = await connect(t, wire, port);
      return connection.ask(request);
    },
  };
}

async function connect(t: ExecutionContext, wire: Wire, port: number): Promise<Door> {
  if (wire === 'zeromq') return openDealer(t, port);
  const peer = await connectRaw(t, port);
  const opened = wire === 'ws' ? await upgraded(peer, OPENING.ws) : 0;
  let read = opened;
  return {
    ask: async (request) => {
      peer.write(wire === 'tcp' ? tcpFrame(request) : clientFrame(0x82, request));
      const { body, end } = await nextMessage(peer, wire, read);
      read = end;
      return body;
    },
  };
}

/** Subscribes on the publish port. Resolves when the master counts the subscriber. */
export async function listen(
  t: ExecutionContext,
  wire: Wire,
  port: number,
): Promise<() => Promise<WireMap>> {
  if (wire === 'zeromq') return listenZeromq(t, port);
  const peer = await connectRaw(t, port);
  let read = 0;
  if (wire === 'ws') read = await upgraded(peer, SUBSCRIPTION.ws);
  else peer.write(SUBSCRIPTION.tcp);
  return async () => {
    const { body, end } = await nextMessage(peer, wire, read);
    read = end;
    return asMap(body);
  };
}

function openDealer(t: ExecutionContext, port: number): Door {
  const socket = new Dealer({ linger: 0 });
  t.teardown(() => socket.close());
  socket.connect(`tcp://127.0.0.1:${port}`);
  return {
    ask: async (request) => {
      await socket.send([null, Buffer.from(request)]);
      const [, reply = Buffer.alloc(0)] = await within('an answer', socket.receive());
      return reply;
    },
  };
}

function listenZeromq(t: ExecutionContext, port: number): () => Promise<WireMap> {
  const socket = new Subscriber({ linger: 0 });
  t.teardown(() => socket.close());
  socket.subscribe();
  socket.connect(`tcp://127.0.0.1:${port}`);
  return async () => {
    const [frame = Buffer.alloc(0)] = await within('a publication', socket.receive());
    return asMap(frame);
  };
}

function tcpFrame(body: Uint8Array): Buffer {
  return Buffer.concat([tcpHead, body]);
}

async function upgraded(peer: RawPeer, opening: Uint8Array): Promise<number> {
  peer.write(opening);
  await until('the upgrade to WebSocket', () => peer.received.includes('\r\n\r\n'));
  return peer.received.indexOf('\r\n\r\n') + 4;
}

interface Message {
  readonly body: Buffer;
  readonly end: number;
}

async function nextMessage(peer: RawPeer, wire: Wire, start: number): Promise<Message> {
  const find = wire === 'tcp' ? tcpMessage : websocketMessage;
  await until('a message', () => find(peer.received, start) !== undefined);
  const found = find(peer.received, start);
  if (found === undefined) throw new Error('no message');
  return found;
}

/**
 * Splits a map `{head, body}`. In these tests, only one arrives at a time. Its values are packed in
 * place.
 */
function tcpMessage(received: Buffer, start: number): Message | undefined {
  const bytes = received.subarray(start);
  if (tryUnpack(bytes) === undefined) return undefined;
  const begin = bytes.indexOf('a4626f6479', 0, 'hex') + 5;
  return { body: bytes.subarray(begin), end: received.length };
}

function tryUnpack(bytes: Buffer): WireMap | undefined {
  try {
    const value = unpackWire(bytes);
    return isWireMap(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Splits an unmasked frame of a server [RFC 6455 5.2]. */
function websocketMessage(received: Buffer, start: number): Message | undefined {
  if (received.length < start + 10) {
    const short = received[start + 1];
    if (short === undefined || short > 125) return undefined;
  }
  const [length, begin] = payloadOf(received, start);
  const end = begin + length;
  return received.length < end ? undefined : { body: received.subarray(begin, end), end };
}

function payloadOf(received: Buffer, start: number): readonly [length: number, begin: number] {
  const short = received[start + 1] ?? 0;
  if (short === 126) return [received.readUInt16BE(start + 2), start + 4];
  if (short === 127) return [Number(received.readBigUInt64BE(start + 2)), start + 10];
  return [short, start + 2];
}

/** Unpacks a publication. In TCP and WebSocket frames, it is contained as a byte string. */
function asMap(bytes: Uint8Array): WireMap {
  const framed = unpackWire(bytes);
  const inner = wireBytes(framed);
  const value = inner === undefined ? framed : unpackWire(inner);
  if (!isWireMap(value)) throw new TypeError('no map was published');
  return value;
}
