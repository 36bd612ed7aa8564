/**
 * A program that opens many connections to one listener and ends each in the middle of a message,
 * in the handshake, or after invalid bytes. It prints how many connections were measured, and by
 * how many bytes the memory grew. Arguments: Salt's name of the transport, and the number of
 * connections to measure.
 */
import {
  createTcpListener,
  createWebsocketListener,
  createZeromqListener,
  type MasterTransport,
} from '#minion-protocol';
import { allowedGrowth } from './measured-process.ts';
import { OPENING, REQUEST, SUBSCRIPTION } from './stream-masters.ts';
import { HOST, openRaw } from './zeromq-master.ts';
import { GREETING, HELLO, hex, longHeader, READY_REQ, READY_SUB } from './zmtp-bytes.ts';

/**
 * Bytes that the connections send. Connections with an even index go to the request port, the
 * others to the publish port.
 */
type Kinds = ReadonlyArray<readonly Uint8Array[]>;

const zeromqKinds: Kinds = [
  [GREETING, READY_REQ, hex('0100'), longHeader(2, 10_000_000n), new Uint8Array(100_000)],
  [GREETING, READY_REQ, HELLO],
  [GREETING, READY_SUB, hex('000101')],
  [GREETING.subarray(0, 30)],
  [Buffer.from('GET / HTTP/1.1\r\n\r\n')],
  [GREETING, READY_REQ, hex('0408 03464f4f 00000000')],
];
const tcpKinds: Kinds = [
  [hex('82a46865616480a4626f6479c600a00000'), new Uint8Array(100_000)],
  [SUBSCRIPTION.tcp],
  [REQUEST.tcp],
  [SUBSCRIPTION.tcp.subarray(0, 100)],
  [Buffer.from('GET / HTTP/1.1\r\n\r\n')],
  [hex('c1')],
];
const websocketKinds: Kinds = [
  [OPENING.ws, hex('82ff0000000000a00000 11223344'), new Uint8Array(100_000)],
  [SUBSCRIPTION.ws],
  [OPENING.ws, REQUEST.ws],
  [SUBSCRIPTION.ws.subarray(0, 100)],
  [Buffer.from('GET / HTTP/1.1\r\n\r\n')],
  [SUBSCRIPTION.ws, hex('c1')],
];

const ports = { host: HOST, requestPort: 0, publishPort: 0 };
const storms: Readonly<Record<string, readonly [() => MasterTransport, Kinds]>> = {
  zeromq: [() => createZeromqListener(ports), zeromqKinds],
  tcp: [() => createTcpListener(ports), tcpKinds],
  ws: [() => createWebsocketListener(ports), websocketKinds],
};
const [create, kinds] = storms[process.argv[2] ?? ''] ?? [];
if (create === undefined || kinds === undefined) throw new Error('which transport?');
const listener = create();
const { requestPort, publishPort } = await listener.listen(async (request) => request);
let connections = 0;
let growth = Number.POSITIVE_INFINITY;
// The first rounds fill the pools of the allocator and of the garbage collector. A leak would grow
// in every round.
await storm(2000);
for (let round = 0; round < 5 && growth >= allowedGrowth; round += 1) {
  const before = await settledMemory();
  connections = await storm(Number(process.argv[3]));
  growth = Math.min(growth, (await settledMemory()) - before);
}
await listener.close();
process.stdout.write(JSON.stringify({ connections, growth }));

async function storm(count: number): Promise<number> {
  let done = 0;
  while (done < count) {
    await Promise.all(Array.from({ length: 50 }, (_, index) => misbehave(index)));
    done += 50;
  }
  return done;
}

async function misbehave(kind: number): Promise<void> {
  const peer = await openRaw(kind % 2 === 0 ? requestPort : publishPort);
  peer.write(...(kinds?.[kind % kinds.length] ?? []));
  peer.socket.end();
  await peer.closed('after misbehaving');
}

/**
 * Returns the memory in use after garbage collection. Freed buffers are returned some turns of the
 * event loop later.
 */
async function settledMemory(): Promise<number> {
  for (let turn = 0; turn < 10; turn += 1) {
    globalThis.gc?.();
    await new Promise(setImmediate);
  }
  return process.memoryUsage.rss();
}
