/**
 * Starts TCP and WebSocket listeners on free loopback ports, and provides the bytes that real peers
 * send.
 */
import type { ExecutionContext } from 'ava';
import type { MasterTransport } from '#minion-protocol';
import { createTcpListener, createWebsocketListener } from '#minion-protocol';
import type { TcpListenerOptions } from '#minion-protocol/transport/tcp-listener.ts';
import type { AnnouncementHandler, RequestHandler } from '#minion-protocol/transport/transport.ts';
import { base64, cases, type JsonObject, text, vectorFile } from './vectors.ts';
import { HOST, type Master } from './zeromq-master.ts';

/** Transports over byte streams. */
export const STREAMS = ['tcp', 'ws'] as const;
export type Stream = (typeof STREAMS)[number];

/** Recorded frames of Salt's TCP transport. */
export const tcpVectors: readonly JsonObject[] = cases(vectorFile('tcp_frames'), 'cases');
const websocketVectors = vectorFile('websocket');

/** Returns the recorded case whose name begins with this text. */
export function tcpVector(name: string): JsonObject {
  const found = tcpVectors.find((vector) => text(vector.name).startsWith(name));
  if (found === undefined) throw new Error(`no such vector: ${name}`);
  return found;
}

function handshake(path: string): Buffer {
  const found = cases(websocketVectors, 'handshakes').find((vector) => vector.path === path);
  return Buffer.from(text(found?.request), 'latin1');
}

function websocketMessage(name: string): JsonObject {
  const found = cases(websocketVectors, 'messages').find((vector) => vector.name === name);
  if (found === undefined) throw new Error(`no such vector: ${name}`);
  return found;
}

/** Bytes that a real minion sends on the request port before its first request. */
export const OPENING: Readonly<Record<Stream, Buffer>> = {
  tcp: Buffer.alloc(0),
  ws: handshake('/'),
};

/** A sign-in request of a real minion. */
export const REQUEST: Readonly<Record<Stream, Buffer>> = {
  tcp: base64(tcpVector('sign-in request, 3006.5').frame_b64),
  ws: base64(websocketMessage('sign-in request').client_frame_b64),
};

/** Bytes that a real minion sends to the publish port. */
export const SUBSCRIPTION: Readonly<Record<Stream, Buffer>> = {
  tcp: base64(tcpVector('presence announcement on the publish connection, minion 3007').frame_b64),
  ws: handshake('/ws'),
};

/** The recorded publication: its envelope, and the frame that contains it. */
export const PUBLICATION: Readonly<Record<Stream, { envelope: Buffer; frame: Buffer }>> = {
  tcp: publication(text(tcpVector('publication').frame_b64), 'tcp'),
  ws: publication(text(websocketMessage('publication').server_frame_b64), 'ws'),
};

function publication(frameText: string, stream: Stream): { envelope: Buffer; frame: Buffer } {
  const frame = Buffer.from(frameText, 'base64');
  // This removes the heads of the frame and of the byte string.
  const headBytes = stream === 'tcp' ? 12 + 3 : 4 + 3;
  return { frame, envelope: frame.subarray(headBytes) };
}

export interface StreamMasterOptions extends TcpListenerOptions {
  readonly handler?: RequestHandler;
  readonly announce?: AnnouncementHandler;
}

/**
 * Starts a listener, which runs until the end of the test. By default it answers every request with
 * `ok`.
 */
export async function startStream(
  t: ExecutionContext,
  stream: Stream,
  { handler = async () => ANSWER, announce, ...options }: StreamMasterOptions = {},
): Promise<Master> {
  const create = stream === 'tcp' ? createTcpListener : createWebsocketListener;
  const transport: MasterTransport = create({
    host: HOST,
    requestPort: 0,
    publishPort: 0,
    ...options,
  });
  t.teardown(() => transport.close(0));
  return { transport, ...(await transport.listen(handler, announce)) };
}

/** The packed text `ok`. */
export const ANSWER: Buffer = Buffer.from('a26f6b', 'hex');

/** Returns a WebSocket frame of a client. Its mask is 11223344, as in the recorded vectors. */
export function clientFrame(flags: number, payload: Uint8Array): Buffer {
  const { length } = payload;
  const head = Buffer.concat([Buffer.of(flags), maskedLength(length)]);
  const mask = Buffer.from('11223344', 'hex');
  const masked = payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0));
  return Buffer.concat([head, mask, masked]);
}

/** Encodes a length in the shortest form [RFC 6455 5.2]. */
function maskedLength(length: number): Buffer {
  if (length < 126) return Buffer.of(0x80 | length);
  const isShort = length < 65_536;
  const bytes = Buffer.alloc(isShort ? 3 : 9, 0x80 | (isShort ? 126 : 127));
  if (isShort) bytes.writeUInt16BE(length, 1);
  else bytes.writeBigUInt64BE(BigInt(length), 1);
  return bytes;
}
