/** Memory, processor time and traffic of a process of the campaign. */

import { subscribe } from 'node:diagnostics_channel';
import { ClientRequest, IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface ProcessFigures {
  /** Processor time since the start, in milliseconds. */
  readonly cpuMs: number;
  /** Time of the measurement, in milliseconds since an arbitrary start. */
  readonly atMs: number;
  /** Bytes of TCP connections that this process has accepted. */
  readonly sent: number;
  readonly received: number;
}

const open = new Set<Socket>();
let sent = 0;
let received = 0;

/** Counts the bytes of all TCP connections that are accepted from now on. */
export function countTraffic(): void {
  subscribe('net.server.socket', (message) => {
    const socket = socketOf(message);
    // Connections of the local socket have no port.
    if (socket?.localPort === undefined) return;
    open.add(socket);
    socket.once('close', () => {
      open.delete(socket);
      sent += socket.bytesWritten;
      received += socket.bytesRead;
    });
  });
}

/** Requests for parts of packs. */
export interface PartRequests {
  /** Number of different parts. */
  readonly parts: number;
  /** Number of further requests for the rest of a part. */
  readonly continued: number;
  /** Number of further requests for a whole part. */
  readonly repeated: number;
}

/** Numbers of requests for the whole part and for the rest of it, by path. */
const partRequests = new Map<string, { whole: number; rest: number }>();

/** Counts the requests for each part of a pack from now on. */
export function countPartRequests(): void {
  subscribe('http.server.request.start', (message) => {
    if (typeof message !== 'object' || message === null || !('request' in message)) return;
    const { request } = message;
    if (!(request instanceof IncomingMessage) || request.url?.includes('/packs/') !== true) return;
    const counts = partRequests.get(request.url) ?? { whole: 0, rest: 0 };
    if (request.headers.range === undefined) counts.whole += 1;
    else counts.rest += 1;
    partRequests.set(request.url, counts);
  });
}

/** Returns the requests for parts since the last call. */
export function takePartRequests(): PartRequests {
  const counts = [...partRequests.values()];
  partRequests.clear();
  const sumOf = (of: (count: { whole: number; rest: number }) => number): number =>
    counts.reduce((sum, count) => sum + of(count), 0);
  return {
    parts: counts.length,
    continued: sumOf(({ rest }) => rest),
    repeated: sumOf(({ whole }) => whole - 1),
  };
}

let partBytes = 0;

/** Counts the bytes of parts of packs that this process receives from now on. */
export function countPartBytes(): void {
  subscribe('http.client.response.finish', (message) => {
    if (typeof message !== 'object' || message === null) return;
    if (!('request' in message) || !('response' in message)) return;
    const { request, response } = message;
    const isPart = request instanceof ClientRequest && request.path.includes('/packs/');
    if (!isPart || !(response instanceof IncomingMessage)) return;
    response.on('data', (chunk: Buffer) => {
      partBytes += chunk.length;
    });
  });
}

/** Returns the received bytes of parts since the last call. */
export function takePartBytes(): number {
  const bytes = partBytes;
  partBytes = 0;
  return bytes;
}

function socketOf(message: unknown): Socket | undefined {
  if (typeof message !== 'object' || message === null || !('socket' in message)) return undefined;
  return message.socket instanceof Socket ? message.socket : undefined;
}

/**
 * Number and interval of the garbage collections before the resident memory is measured. Node.js
 * returns freed memory to the system some seconds after it has collected it.
 */
const collections = 4;
const collectionMs = 4000;

/** Returns the resident memory after garbage collection, in bytes. */
export async function residentMemory(): Promise<number> {
  for (let turn = 0; turn < collections; turn += 1) {
    globalThis.gc?.();
    await sleep(collectionMs);
  }
  return process.memoryUsage.rss();
}

export function processFigures(): ProcessFigures {
  const { user, system } = process.cpuUsage();
  let [sentNow, receivedNow] = [sent, received];
  for (const { bytesWritten, bytesRead } of open) {
    sentNow += bytesWritten;
    receivedNow += bytesRead;
  }
  return {
    cpuMs: (user + system) / 1000,
    atMs: performance.now(),
    sent: sentNow,
    received: receivedNow,
  };
}
