/** Measures the ZeroMQ listener with libzmq clients in the same process: echo and fan-out. */
import { Dealer, Subscriber } from 'zeromq';
import { createZeromqListener } from '#minion-protocol/transport/zeromq-listener.ts';

const HOST = '127.0.0.1';
const REQUESTS = 100_000;
const SUBSCRIBERS = 1000;
const PUBLICATIONS = 20;

/**
 * Prints the echoes per second over four DEALERs that pipeline requests, and the time of a fan-out
 * to 1,000 subscribers.
 */
export async function benchZmtp(): Promise<void> {
  const listener = createZeromqListener({ host: HOST, requestPort: 0, publishPort: 0 });
  const { requestPort, publishPort } = await listener.listen(async (request) => request);
  try {
    const perSecond = await echoesPerSecond(requestPort);
    print('zmtp echo', `${Math.round(perSecond)}/s`);
    const sockets = await subscribeAll(publishPort, () => listener.subscribers().length);
    const ms = await fanOutMs(sockets, (envelope) =>
      listener.publish({ envelope, minionIds: null }),
    );
    print(`zmtp fan-out to ${SUBSCRIBERS}`, `${ms.toFixed(1)} ms`);
    for (const socket of sockets) socket.close();
  } finally {
    await listener.close(0);
  }
}

async function echoesPerSecond(port: number): Promise<number> {
  const clients = Array.from({ length: 4 }, () => new Dealer({ linger: 0 }));
  const body = new Uint8Array(200);
  const each = REQUESTS / clients.length;
  const start = performance.now();
  await Promise.all(
    clients.map(async (client) => {
      client.connect(`tcp://${HOST}:${port}`);
      const sent = (async () => {
        for (let index = 0; index < each; index += 1) await client.send(['', body]);
      })();
      for (let index = 0; index < each; index += 1) await client.receive();
      await sent;
      client.close();
    }),
  );
  return (REQUESTS / (performance.now() - start)) * 1000;
}

async function subscribeAll(port: number, count: () => number): Promise<Subscriber[]> {
  const sockets = Array.from({ length: SUBSCRIBERS }, () => {
    const socket = new Subscriber({ linger: 0 });
    socket.subscribe();
    socket.connect(`tcp://${HOST}:${port}`);
    return socket;
  });
  while (count() < SUBSCRIBERS) await new Promise(setImmediate);
  return sockets;
}

/**
 * Returns the mean time from a publication until the last subscriber has received it, in
 * milliseconds.
 */
async function fanOutMs(
  sockets: readonly Subscriber[],
  publish: (envelope: Uint8Array) => unknown,
): Promise<number> {
  const envelope = new Uint8Array(1000);
  const start = performance.now();
  for (let round = 0; round < PUBLICATIONS; round += 1) {
    publish(envelope);
    await Promise.all(sockets.map((socket) => socket.receive()));
  }
  return (performance.now() - start) / PUBLICATIONS;
}

function print(what: string, value: string): void {
  process.stdout.write(`${what.padEnd(32)} ${value}\n`);
}
