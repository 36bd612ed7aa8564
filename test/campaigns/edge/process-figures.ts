/** Memory, processor time and traffic of a process of the campaign. */

import { subscribe } from 'node:diagnostics_channel';
import { IncomingMessage } from 'node:http';
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

const partRequests = new Map<string, number>();

/** Counts the requests for each part of a pack from now on. */
export function countPartRequests(): void {
  subscribe('http.server.request.start', (message) => {
    if (typeof message !== 'object' || message === null || !('request' in message)) return;
    const { request } = message;
    if (!(request instanceof IncomingMessage) || request.url?.includes('/packs/') !== true) return;
    partRequests.set(request.url, (partRequests.get(request.url) ?? 0) + 1);
  });
}

/** Returns the number of requests for each part since the last call. */
export function takePartRequests(): readonly number[] {
  const counts = [...partRequests.values()];
  partRequests.clear();
  return counts;
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
