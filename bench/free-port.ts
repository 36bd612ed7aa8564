/** Ports for servers that go away and come back. */
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/** Below what systems give to outgoing connections (Linux: from 32,768 on). */
const [lowest, highest] = [20_000, 32_000];

/**
 * A port that nobody listens on now, and that no outgoing connection gets: whoever dials a server
 * that is away, again and again, is connected to himself as soon as his own port is the same.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(lowest, highest);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
