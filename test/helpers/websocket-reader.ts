/** A WebSocket client with the features that `/ws` needs. */
import { connect } from 'node:net';
import type { ExecutionContext } from 'ava';
import { within } from './deadline.ts';

/** Returns a frame of a client with text. The mask is zero. */
export function clientFrame(text: string): Buffer {
  return Buffer.concat([Buffer.from([0x81, 0x80 | text.length, 0, 0, 0, 0]), Buffer.from(text)]);
}

/** Returns the texts of unmasked frames. */
export function framesOf(bytes: Buffer): string[] {
  const texts: string[] = [];
  for (let at = 0; at + 2 <= bytes.length; ) {
    const short = bytes.readUInt8(at + 1);
    const start = at + (short === 126 ? 4 : 2);
    const length = short === 126 ? bytes.readUInt16BE(at + 2) : short;
    texts.push(bytes.toString('utf8', start, start + length));
    at = start + length;
  }
  return texts;
}

/** Requests a WebSocket connection. It is closed at the end of the test. */
export async function upgrade(
  t: ExecutionContext,
  port: number,
  path: string,
  header = '',
): Promise<{
  write(bytes: Buffer): void;
  until(part: string): Promise<Buffer>;
  closed: Promise<void>;
}> {
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  let bytes = Buffer.alloc(0);
  let wake = (): void => {};
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    bytes = Buffer.concat([bytes, chunk]);
    wake();
  });
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n${header}` +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  );
  const until = async (part: string): Promise<Buffer> => {
    while (!bytes.includes(part)) {
      await within(`${part} over WebSocket`, new Promise<void>((resolve) => (wake = resolve)));
    }
    return bytes;
  };
  return { write: (more) => socket.write(more), until, closed };
}
