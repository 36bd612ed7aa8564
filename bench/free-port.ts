/** Ports for servers that go away and come back. */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below what systems give to outgoing connections (Linux: from 32,768 on). */
const [lowest, highest] = [20_000, 32_000];
const blockSize = 40;

/** The next port of a block that this process has to itself, and the first one behind it. */
let next = 0;
let end = 0;

/**
 * A port that nobody listens on, that no other process is given, and that no outgoing connection
 * gets: whoever dials a server that is away, again and again, is connected to himself as soon as
 * his own port is the same.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    if (next === end) await claimBlock();
    const port = next;
    next += 1;
    if (await listens(port, 'briefly')) return port;
  }
}

/** The first port of a block is listened on as long as the process lives: that is the claim. */
async function claimBlock(): Promise<void> {
  for (;;) {
    const first = lowest + blockSize * randomInt((highest - lowest) / blockSize);
    if (await listens(first, 'for life')) {
      next = first + 1;
      end = first + blockSize;
      return;
    }
  }
}

/** False: somebody else listens there. */
async function listens(port: number, howLong: 'briefly' | 'for life'): Promise<boolean> {
  const server = createServer();
  server.unref();
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return false;
  }
  if (howLong === 'briefly') {
    server.close();
    await once(server, 'close');
  }
  return true;
}
