import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { dialZeromq } from '#minion-protocol';
import { until, waitMs } from '../helpers/deadline.ts';
import { effort } from '../helpers/effort.ts';
import { allowedGrowth } from '../helpers/measured-process.ts';
import { connectRaw, HOST, type Master, startMaster } from '../helpers/zeromq-master.ts';
import {
  frame,
  GREETING,
  HELLO,
  hex,
  longHeader,
  READY_DEALER,
  READY_REQ,
  READY_SUB,
} from '../helpers/zmtp-bytes.ts';

/** Cases: name, port, bytes that a stranger sends, and the reason why the connection is closed. */
const STRANGERS: ReadonlyArray<readonly [string, 'request' | 'publish', Uint8Array[], string]> = [
  ['HTTP', 'request', [Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n')], 'signature'],
  ['HTTP', 'publish', [Buffer.from('POST /run HTTP/1.1\r\n\r\n')], 'signature'],
  ['TLS', 'request', [hex('1603010200010001fc0303')], 'signature'],
  ['SSH', 'request', [Buffer.from('SSH-2.0-OpenSSH_9.2\r\n')], 'signature'],
  ['an old version', 'request', [hex('ff00000000000000017f01')], 'version'],
  ['another mechanism', 'request', [GREETING.subarray(0, 12), Buffer.from('CURVE')], 'mechanism'],
  ['a SUB', 'request', [GREETING, READY_SUB], 'socket-type'],
  ['a REQ', 'publish', [GREETING, READY_REQ], 'socket-type'],
  ['READY twice', 'request', [GREETING, READY_REQ, READY_REQ], 'unexpected-command'],
  ['a message before READY', 'request', [GREETING, HELLO], 'message-before-ready'],
  ['MORE without end', 'request', [GREETING, READY_REQ, ...moreFrames(5000)], 'too-many-parts'],
  [
    'a promise of gigabytes',
    'request',
    [GREETING, READY_REQ, hex('0100'), longHeader(2, 2n ** 33n)],
    'message-too-large',
  ],
  [
    'a request without an empty frame',
    'request',
    [GREETING, READY_DEALER, frame(0, 'x')],
    'bad-request',
  ],
  ['an empty frame alone', 'request', [GREETING, READY_DEALER, hex('0000')], 'bad-request'],
  [
    'a body in two frames',
    'request',
    [GREETING, READY_REQ, hex('0100'), frame(1, 'a'), frame(0, 'b')],
    'bad-request',
  ],
  [
    'an envelope frame that is no routing id',
    'request',
    [GREETING, READY_DEALER, longHeader(3, 256n), Buffer.alloc(256, 1), HELLO],
    'bad-request',
  ],
  [
    'a topic of 257 bytes',
    'publish',
    [GREETING, READY_SUB, longHeader(2, 258n), Buffer.alloc(258, 1)],
    'message-too-large',
  ],
];

for (const [title, port, pieces, reason] of STRANGERS) {
  test(`${title} at the ${port} port is closed and counted, and the next client is served`, async (t) => {
    const master = await startMaster(t);
    const stranger = await connectRaw(t, portOf(master, port));
    stranger.write(...pieces);
    await stranger.closed(title);
    t.deepEqual(master.transport.refusals(), { [reason]: 1 });
    await isServed(t, master);
  });
}

test('a thousand topics are accepted, and one more is refused', async (t) => {
  const master = await startMaster(t);
  const greedy = await connectRaw(t, master.publishPort);
  greedy.write(GREETING, READY_SUB, ...topics(0, 1000), ...topics(0, 1000));
  await until('the topics', () => master.transport.subscribers()[0]?.topics.length === 1000);
  greedy.write(...topics(1000, 1001));
  await greedy.closed('too many topics');
  t.deepEqual(master.transport.refusals(), { 'too-many-topics': 1 });
  t.deepEqual(master.transport.subscribers(), []);
});

test('PING is answered by PONG with its context', async (t) => {
  const master = await startMaster(t);
  const peer = await connectRaw(t, master.requestPort);
  peer.write(GREETING, READY_REQ, frame(4, hex('0450494e47 0010 c0ffee')));
  const pong = frame(4, hex('04504f4e47 c0ffee'));
  await until('PONG', () => peer.received.subarray(-pong.length).equals(pong));
  t.deepEqual(master.transport.refusals(), {});
});

test('a request sent one byte at a time is answered', async (t) => {
  const master = await startMaster(t);
  const slow = await connectRaw(t, master.requestPort);
  for (const byte of Buffer.concat([GREETING, READY_REQ, HELLO])) {
    slow.write(Uint8Array.of(byte));
    await new Promise(setImmediate);
  }
  await until('the answer', () => slow.received.subarray(-HELLO.length).equals(HELLO));
  t.deepEqual(master.transport.refusals(), {});
});

test('stops reading from a peer that does not read its answers', async (t) => {
  let asked = 0;
  const master = await startMaster(t, {}, async () => {
    asked += 1;
    return new Uint8Array(1_000_000);
  });
  const mute = await connectRaw(t, master.requestPort);
  mute.socket.pause();
  mute.write(GREETING, READY_DEALER, ...Array<Uint8Array>(5000).fill(HELLO));
  await isServed(t, master);
  // Requests are sent until the waiting bytes exceed the high-water mark, and never all 5000.
  await until('the first requests', () => asked > 1);
  await isServed(t, master);
  t.true(asked <= 2 * 64 + 2, `${asked} requests`);
});

test('with 900 silent connections, others are served', async (t) => {
  const master = await startMaster(t);
  const silent = Array.from({ length: 900 }, () => connectRaw(t, master.requestPort));
  await Promise.all(silent);
  await isServed(t, master);
  t.deepEqual(master.transport.refusals(), {});
});

test('2,000 connections of every kind leave no memory allocated', async (t) => {
  t.timeout(60_000 * effort);
  // The master runs in a process of its own, because the other test files share the memory of this
  // one.
  const storm = join(import.meta.dirname, '..', 'helpers', 'connection-storm.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--expose-gc',
    storm,
    'zeromq',
    `${2000 * effort}`,
  ]);
  const { connections, growth } = JSON.parse(stdout);
  t.is(connections, 2000 * effort);
  t.true(growth < allowedGrowth, `${growth} bytes more than before`);
});

/** Checks that a genuine libzmq client still gets replies. */
async function isServed(t: ExecutionContext, master: Master): Promise<void> {
  const minion = dialZeromq({ host: HOST, requestPort: master.requestPort });
  t.teardown(() => minion.close());
  t.true((await minion.request(Buffer.from('genuine'), waitMs)).length > 0);
}

function portOf(master: Master, port: 'request' | 'publish'): number {
  return port === 'request' ? master.requestPort : master.publishPort;
}

function moreFrames(count: number): Uint8Array[] {
  return Array<Uint8Array>(count).fill(frame(1, 'x'));
}

function topics(from: number, to: number): Uint8Array[] {
  return Array.from({ length: to - from }, (_, index) => frame(0, `\u0001topic ${from + index}`));
}
