/**
 * Reads server-sent events with many clients. The first reader parses the events, and the others
 * only count bytes.
 */
import { connect, type Socket } from 'node:net';
import type { ReadOrder, ReadOutcome } from './orders.ts';

/**
 * Reads events with all readers of an order.
 * @param onOpen - called when all readers are connected
 */
export async function readEvents(order: ReadOrder, onOpen: () => void): Promise<ReadOutcome> {
  const readers = await Promise.all(Array.from({ length: order.readers }, () => openReader(order)));
  let events = 0;
  readers[0]?.socket.on('data', (chunk) => {
    for (let at = chunk.indexOf('tag: '); at !== -1; at = chunk.indexOf('tag: ', at + 5))
      events += 1;
  });
  onOpen();
  await new Promise((resolve) => setTimeout(resolve, order.seconds * 1000));
  const bytes = readers.map((it) => it.bytes).sort((left, right) => left - right);
  const open = readers.filter(({ socket }) => !socket.destroyed).length;
  for (const { socket } of readers) socket.destroy();
  return { events, open, leastBytes: bytes[0] ?? 0, mostBytes: bytes.at(-1) ?? 0 };
}

interface Reader {
  readonly socket: Socket;
  bytes: number;
}

async function openReader({ host, port, token }: ReadOrder): Promise<Reader> {
  const socket = connect(port, host);
  const reader: Reader = { socket, bytes: 0 };
  socket.write(`GET /events HTTP/1.1\r\nHost: ${host}:${port}\r\nX-Auth-Token: ${token}\r\n\r\n`);
  await new Promise<void>((resolve, reject) => {
    socket.once('data', () => resolve());
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('the server rejected an event stream')));
  });
  socket.on('data', (chunk) => {
    reader.bytes += chunk.length;
  });
  return reader;
}
