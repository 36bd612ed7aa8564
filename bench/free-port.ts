/** Finds free ports for servers that are stopped and started again. */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Range of ports. It is below the ports that systems use for outgoing connections (Linux: from
 * 32,768).
 */
const [lowest, highest] = [20_000, 32_000];
const blockSize = 40;

/** Next port of the block that this process has reserved. */
let next = 0;
let end = 0;

/**
 * Returns a free port: no process listens on it, no outgoing connection uses it, and this function
 * gives it to no other process. The last condition matters: a client that repeatedly connects to a
 * stopped server could otherwise get the same local port and be connected to itself.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    if (next === end) await claimBlock();
    const port = next;
    next += 1;
    if (await listens(port, 'briefly')) return port;
  }
}

/** Reserves a block of ports by listening on its first port until the process ends. */
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

/** Listens on a port. Returns `false` if another process already listens there. */
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
