/**
 * A program that opens 2,000 connections to one listener at the same time. Each sends the beginning
 * of a message that it never completes. The program prints why connections were refused, how many
 * bytes of memory they cost, and whether a genuine request was answered meanwhile. Its argument is
 * Salt's name of the transport.
 */
import {
  createTcpListener,
  createWebsocketListener,
  createZeromqListener,
  type MasterTransport,
} from '#minion-protocol';
import { until } from './deadline.ts';
import { OPENING, REQUEST } from './stream-masters.ts';
import { HOST, openRaw, type RawPeer } from './zeromq-master.ts';
import { GREETING, HELLO, hex, longHeader, READY_REQ } from './zmtp-bytes.ts';

/** Bytes with which the connections begin, and a genuine request. */
interface Speech {
  readonly create: () => MasterTransport;
  readonly beginnings: ReadonlyArray<readonly Uint8Array[]>;
  readonly genuine: readonly Uint8Array[];
}

const ports = { host: HOST, requestPort: 0, publishPort: 0 };
const halfBody = new Uint8Array(10_000);
const speeches: Readonly<Record<string, Speech>> = {
  zeromq: {
    create: () => createZeromqListener(ports),
    beginnings: [
      [],
      [GREETING.subarray(0, 30)],
      [GREETING, READY_REQ],
      [GREETING, READY_REQ, hex('0100'), longHeader(2, 1_000_000n), halfBody],
    ],
    genuine: [GREETING, READY_REQ, HELLO],
  },
  tcp: {
    create: () => createTcpListener(ports),
    beginnings: [
      [],
      [REQUEST.tcp.subarray(0, 10)],
      [REQUEST.tcp.subarray(0, 100)],
      [hex('82a46865616480a4626f6479c6000f4240'), halfBody],
    ],
    genuine: [REQUEST.tcp],
  },
  ws: {
    create: () => createWebsocketListener(ports),
    beginnings: [
      [],
      [OPENING.ws.subarray(0, 60)],
      [OPENING.ws],
      [OPENING.ws, hex('82ff00000000000f424011223344'), halfBody],
    ],
    genuine: [OPENING.ws, REQUEST.ws],
  },
};
const speech = speeches[process.argv[2] ?? ''];
if (speech === undefined) throw new Error('which transport?');
const { create, beginnings, genuine } = speech;
const listener = create();
let answered = 0;
const { requestPort } = await listener.listen(async () => {
  answered += 1;
  return hex('a26f6b');
});
const before = process.memoryUsage.rss();
const crowd: RawPeer[] = [];
while (crowd.length < 2000) {
  const peers = Array.from({ length: 50 }, () => openRaw(requestPort));
  for (const peer of await Promise.all(peers)) {
    peer.write(...(beginnings[crowd.length % beginnings.length] ?? []));
    crowd.push(peer);
  }
}
await until('the refusals', () => count(listener.refusals()) >= 1000);
const one = await openRaw(requestPort);
one.write(...genuine);
await until('the answer', () => answered === 1 && one.receivedBytes > 0);
const growth = process.memoryUsage.rss() - before;
const open = crowd.filter(({ socket }) => !socket.closed).length;
process.stdout.write(JSON.stringify({ refusals: listener.refusals(), open, growth, answered }));
for (const { socket } of [...crowd, one]) socket.destroy();
await listener.close(0);

function count(refusals: Readonly<Record<string, number>>): number {
  return Object.values(refusals).reduce((sum, one) => sum + one, 0);
}
