import { existsSync, readFileSync } from 'node:fs';
import test, { type ExecutionContext } from 'ava';
import { Request } from 'zeromq';
import { dialZeromq } from '#minion-protocol';
import type { ConnectionLimits } from '#minion-protocol/transport/stream-listener.ts';
import { until, waitMs } from '../helpers/deadline.ts';
import { testWhere } from '../helpers/needs.ts';
import { connectRaw, HOST, type Master, startMaster } from '../helpers/zeromq-master.ts';
import {
  GREETING,
  HELLO,
  hex,
  longHeader,
  READY_DEALER,
  READY_REQ,
  READY_SUB,
} from '../helpers/zmtp-bytes.ts';

const SECOND = 1000;

test('a silent connection is closed after 30 seconds, on both ports', async (t) => {
  const { master, clock } = await clockedMaster(t);
  const silent = await connectRaw(t, master.requestPort);
  const halfGreeted = await connectRaw(t, master.publishPort);
  halfGreeted.write(GREETING.subarray(0, 40));
  await swept(t, master, clock);
  clock.now += 29 * SECOND;
  await swept(t, master, clock);
  t.deepEqual(master.transport.refusals(), {});
  clock.now += 2 * SECOND;
  await Promise.all([silent.closed('silent'), halfGreeted.closed('half a greeting')]);
  t.deepEqual(master.transport.refusals(), { 'handshake-timeout': 2 });
});

test('a peer that never sends READY is closed after 30 seconds', async (t) => {
  const { master, clock } = await clockedMaster(t);
  const peer = await connectRaw(t, master.publishPort);
  peer.write(GREETING);
  await until('our READY', () => peer.receivedBytes > 64);
  clock.now += 31 * SECOND;
  await peer.closed('without READY');
  t.deepEqual(master.transport.refusals(), { 'handshake-timeout': 1 });
});

test('a connection without requests to the request port is closed, and a subscriber is not', async (t) => {
  const { master, clock } = await clockedMaster(t);
  const idle = await connectRaw(t, master.requestPort);
  idle.write(GREETING, READY_REQ);
  const subscriber = await connectRaw(t, master.publishPort);
  subscriber.write(GREETING, READY_SUB, hex('000101'));
  await until('the subscription', () => master.transport.subscribers().length === 1);
  await until('our READY', () => idle.receivedBytes > 64);
  clock.now += 31 * SECOND;
  await idle.closed('idle');
  t.deepEqual(master.transport.refusals(), { 'first-request-timeout': 1 });
  t.is(master.transport.subscribers().length, 1);
});

test('from a known address a connection may wait before its first request', async (t) => {
  const { master, clock } = await clockedMaster(t, {}, true);
  await ask(t, master);
  const idle = await connectRaw(t, master.requestPort);
  idle.write(GREETING, READY_REQ);
  await until('our READY', () => idle.receivedBytes > 64);
  clock.now += 300 * SECOND;
  await swept(t, master, clock);
  idle.write(HELLO);
  await until('the answer', () => idle.received.subarray(-HELLO.length).equals(HELLO));
  t.deepEqual(master.transport.refusals(), {});
});

test('after its first request a connection may be idle without limit', async (t) => {
  const { master, clock } = await clockedMaster(t);
  const peer = await connectRaw(t, master.requestPort);
  peer.write(GREETING, READY_REQ, HELLO);
  await until('the answer', () => peer.received.subarray(-HELLO.length).equals(HELLO));
  clock.now += 100_000 * SECOND;
  await swept(t, master, clock);
  peer.write(HELLO);
  await until('again', () =>
    peer.received.subarray(-2 * HELLO.length, -HELLO.length).equals(HELLO),
  );
  t.deepEqual(master.transport.refusals(), {});
});

test('a message must be complete 30 seconds after its first byte', async (t) => {
  const { master, clock } = await clockedMaster(t);
  const peer = await connectRaw(t, master.requestPort);
  peer.write(GREETING, READY_REQ, HELLO, hex('0100 00'));
  await until('the first answer', () => peer.received.subarray(-HELLO.length).equals(HELLO));
  clock.now += 29 * SECOND;
  await swept(t, master, clock);
  peer.write(hex('05 6865'));
  await swept(t, master, clock);
  t.deepEqual(master.transport.refusals(), {});
  clock.now += 2 * SECOND;
  await peer.closed('slow');
  t.deepEqual(master.transport.refusals(), { 'message-timeout': 1 });
});

test('PINGs in the middle of a message do not extend the deadline', async (t) => {
  const { master, clock } = await clockedMaster(t);
  const peer = await connectRaw(t, master.requestPort);
  const ping = hex('0407 0450494e47 0000');
  peer.write(GREETING, READY_REQ, HELLO, hex('0100'));
  await until('the first answer', () => peer.received.subarray(-HELLO.length).equals(HELLO));
  await swept(t, master, clock);
  clock.now += 20 * SECOND;
  const before = peer.receivedBytes;
  peer.write(ping);
  await until('PONG', () => peer.receivedBytes > before);
  clock.now += 20 * SECOND;
  await peer.closed('slow, with PINGs');
  t.deepEqual(master.transport.refusals(), { 'message-timeout': 1 });
});

test('each 64 KiB received extends the deadline by a second', async (t) => {
  const { master, clock } = await clockedMaster(t);
  const peer = await connectRaw(t, master.requestPort);
  const ping = hex('0407 0450494e47 0000');
  peer.write(GREETING, READY_REQ, HELLO, hex('0100'));
  await until('the first answer', () => peer.received.subarray(-HELLO.length).equals(HELLO));
  const before = peer.receivedBytes;
  for (let part = 0; part < 10; part += 1) {
    peer.write(longHeader(3, 655_360n), new Uint8Array(640 * 1024));
  }
  peer.write(ping);
  await until('PONG: all of it has arrived', () => peer.receivedBytes > before);
  await swept(t, master, clock);
  clock.now += 100 * SECOND;
  await swept(t, master, clock);
  t.deepEqual(master.transport.refusals(), {});
  clock.now += 40 * SECOND;
  await peer.closed('slower than that');
  t.deepEqual(master.transport.refusals(), { 'message-timeout': 1 });
});

test('a subscriber that reads nothing for a minute is disconnected', async (t) => {
  const { master, clock } = await clockedMaster(t);
  const stuck = await connectRaw(t, master.publishPort);
  stuck.write(GREETING, READY_SUB, hex('000101'));
  await until('the subscription', () => master.transport.subscribers().length === 1);
  stuck.socket.pause();
  const envelope = new Uint8Array(8_000_000);
  while (master.transport.publish({ envelope, minionIds: null }).queued > 0) {
    await new Promise(setImmediate);
  }
  const queued = () => master.transport.subscribers()[0]?.queuedBytes ?? 0;
  t.true((await standing(t, master, clock, queued)) > 0);
  clock.now += 61 * SECOND;
  await until('its end', () => master.transport.subscribers().length === 0);
  t.deepEqual(master.transport.refusals(), { 'stalled-reader': 1 });
});

test('stops reading from a peer that floods PING without reading PONG', async (t) => {
  const { master, clock } = await clockedMaster(t);
  const flooder = await connectRaw(t, master.requestPort);
  flooder.write(GREETING, READY_REQ, HELLO);
  await until('an answer', () => flooder.received.subarray(-HELLO.length).equals(HELLO));
  flooder.socket.pause();
  const ping = hex(`0417 0450494e47 0000 ${'00'.repeat(16)}`);
  flooder.write(Buffer.alloc(ping.length * 1_500_000, ping));
  const unread = await standing(t, master, clock, () => flooder.socket.writableLength);
  t.true(unread > 0);
  // The master may still be reading what the kernel has buffered.
  await until('its end', () => {
    clock.now += SECOND;
    return master.transport.refusals()['stalled-reader'] === 1;
  });
});

test('unfinished messages of a stranger are limited over all its connections', async (t) => {
  const { master } = await clockedMaster(t, { maxHeldBytesPerAddress: 300_000 });
  const holders = await Promise.all([1, 2, 3, 4].map(() => connectRaw(t, master.requestPort)));
  for (const peer of holders) {
    peer.write(GREETING, READY_REQ, hex('0100'), longHeader(2, 1_000_000n), new Uint8Array(90_000));
  }
  await until('a refusal', () => master.transport.refusals()['held-bytes-from-address'] === 1);
  await ask(t, master);
});

test('unfinished messages are limited in total, and the stranger that holds most is disconnected', async (t) => {
  const { master } = await clockedMaster(t, { maxHeldBytes: 300_000 });
  const light = await connectRaw(t, master.requestPort);
  light.write(GREETING, READY_REQ, hex('0100'), longHeader(2, 1000n), new Uint8Array(500));
  const heavy = await connectRaw(t, master.requestPort);
  heavy.write(GREETING, READY_REQ, hex('0100'), longHeader(2, 1_000_000n), new Uint8Array(200_000));
  await until('our READY', () => heavy.receivedBytes > 64);
  await ask(t, master);
  t.deepEqual(master.transport.refusals(), {});
  const next = await connectRaw(t, master.requestPort);
  next.write(GREETING, READY_REQ, hex('0100'), longHeader(2, 120_000n), new Uint8Array(110_000));
  await heavy.closed('the heaviest');
  light.write(new Uint8Array(500));
  next.write(new Uint8Array(10_000));
  await until('answers', () => light.receivedBytes > 1000 && next.receivedBytes > 120_000);
  t.deepEqual(master.transport.refusals(), { 'held-bytes': 1 });
});

test('topics count as held memory, so that many connections cannot accumulate them', async (t) => {
  const { master } = await clockedMaster(t, { maxHeldBytesPerAddress: 50_000 });
  const greedy = await connectRaw(t, master.publishPort);
  const topics = Array.from({ length: 500 }, (_, index) =>
    hex(`0003 01 ${index.toString(16).padStart(4, '0')}`),
  );
  greedy.write(GREETING, READY_SUB, ...topics);
  await greedy.closed('hoarding topics');
  t.deepEqual(master.transport.refusals(), { 'held-bytes-from-address': 1 });
});

test('the oldest of too many new connections from an address is closed', async (t) => {
  const { master } = await clockedMaster(t, { maxNewConnectionsPerAddress: 3 });
  const oldest = await connectRaw(t, master.requestPort);
  const proven = await connectRaw(t, master.requestPort);
  proven.write(GREETING, READY_DEALER, HELLO);
  await until('an answer', () => proven.received.subarray(-HELLO.length).equals(HELLO));
  await Promise.all([1, 2].map(() => connectRaw(t, master.requestPort)));
  await connectRaw(t, master.publishPort);
  await oldest.closed('the oldest');
  proven.write(HELLO);
  await until('another', () =>
    proven.received.subarray(-2 * HELLO.length, -HELLO.length).equals(HELLO),
  );
  t.deepEqual(master.transport.refusals(), { 'too-many-from-address': 1 });
});

test('if the master is full, a stranger is disconnected', async (t) => {
  const { master } = await clockedMaster(t, { maxConnections: 2 });
  const oldest = await connectRaw(t, master.requestPort);
  await connectRaw(t, master.publishPort);
  await connectRaw(t, master.publishPort);
  await oldest.closed('to make room');
  t.deepEqual(master.transport.refusals(), { 'too-many-connections': 1 });
});

test('disconnecting a minion ends its request connections', async (t) => {
  const { master } = await clockedMaster(t, {}, true);
  const peer = await connectRaw(t, master.requestPort);
  peer.write(GREETING, READY_REQ, HELLO);
  await until('the answer', () => peer.received.subarray(-HELLO.length).equals(HELLO));
  master.transport.disconnect('another');
  peer.write(HELLO);
  await until('again', () =>
    peer.received.subarray(-2 * HELLO.length, -HELLO.length).equals(HELLO),
  );
  master.transport.disconnect('minion');
  await peer.closed('of the minion');
  t.deepEqual(master.transport.refusals(), {});
});

interface Clock {
  now: number;
  /** Number of times that the clock was read. */
  reads: number;
}

/** Starts a master whose clock the test sets. It checks its deadlines every few milliseconds. */
async function clockedMaster(
  t: ExecutionContext,
  limits: Partial<ConnectionLimits> = {},
  identifies = false,
): Promise<{ master: Master; clock: Clock }> {
  const clock = { now: 1_700_000_000_000, reads: 0 };
  const now = () => {
    clock.reads += 1;
    return clock.now;
  };
  const options = { limits, sweepIntervalMs: 5, now };
  const master = await startMaster(t, options, async (request, peer) => {
    if (identifies) peer.identify('minion');
    return request;
  });
  return { master, clock };
}

/** Waits until sent data has arrived and the master has checked its deadlines after that. */
async function swept(t: ExecutionContext, master: Master, clock: Clock): Promise<void> {
  await ask(t, master);
  const reads = clock.reads;
  await until('a look at the deadlines', () => clock.reads > reads + 1);
}

/** Returns a value when it has been the same for twenty checks of the deadlines. */
async function standing(
  t: ExecutionContext,
  master: Master,
  clock: Clock,
  value: () => number,
): Promise<number> {
  let last = value();
  for (let looks = 0; looks < 20; looks += 1) {
    await swept(t, master, clock);
    if (value() !== last) looks = 0;
    last = value();
  }
  return last;
}

async function ask(t: ExecutionContext, master: Master): Promise<void> {
  const minion = dialZeromq({ host: HOST, requestPort: master.requestPort });
  t.teardown(() => minion.close());
  t.true((await minion.request(Buffer.from('hello'), waitMs)).length > 0);
  await minion.close();
}

// The keep-alive settings of the kernel are read from /proc on Linux.

const connections = '/proc/net/tcp';
const onLinux = testWhere(existsSync(connections), `Linux, for ${connections}`);

/**
 * Returns the seconds until the first keep-alive probe to a peer of this port, or `undefined` if
 * there is none.
 */
function probeInSeconds(port: number): number | undefined {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const established = '01';
  const row = readFileSync(connections, 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .find(([, address, , state]) => address?.endsWith(local) && state === established);
  if (row === undefined) throw new Error(`no connection to port ${port}`);
  const [kind, when = ''] = row[5]?.split(':') ?? [];
  // 02 is the keep-alive timer. Its value is in hundredths of a second.
  return kind === '02' ? Number.parseInt(when, 16) / 100 : undefined;
}

for (const [title, keepAliveIdleMs, isProbed] of [
  ['an idle peer is asked after the time that was set', 40_000, (s = 0) => s > 0 && s <= 40],
  ['an idle peer is asked after the time of the system', 0, (s = 0) => s > 40],
  ['an idle peer is never asked', null, (s?: number) => s === undefined],
] as const) {
  onLinux(title, async (t) => {
    const { requestPort } = await startMaster(t, { keepAliveIdleMs });
    const peer = await connectRaw(t, requestPort);
    // The greeting arrives when the connection was accepted and configured.
    await until('a greeting', () => peer.receivedBytes > 0);
    t.true(isProbed(probeInSeconds(requestPort)));
  });
}

// REQ sockets with identities, which minions have had since 2026 [WIRE 23.5].

test('each socket of the same identity gets its answers, even with the longest identity', async (t) => {
  const waiting: Array<() => void> = [];
  const master = await startMaster(t, {}, async (body) => {
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      // All requests are in progress before the first one is answered.
      if (waiting.length === 3) for (const answer of waiting) answer();
    });
    return body;
  });
  const identity = `salt-req/minion/${'m'.repeat(255)}`.slice(0, 255);
  const ask = async (text: string): Promise<string> => {
    const socket = new Request({ routingId: identity, linger: 0, receiveTimeout: 10_000 });
    t.teardown(() => socket.close());
    socket.connect(`tcp://${HOST}:${master.requestPort}`);
    await socket.send(text);
    return String((await socket.receive())[0]);
  };
  t.deepEqual(await Promise.all(['a', 'b', 'c'].map(ask)), ['a', 'b', 'c']);
  t.deepEqual(master.transport.refusals(), {});
});
