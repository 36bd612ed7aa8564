/** Common behaviour of TCP and WebSocket: ports, limits, and the end of connections. */

import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { type ConnectionOptions, connect } from 'node:tls';
import test, { type ExecutionContext } from 'ava';
import { TcpFrameDecoder, type TlsOptions, unpackWire } from '#minion-protocol';
import type { TcpEvent } from '#minion-protocol/tcp-frames.ts';
import { TransportError } from '#minion-protocol/transport/transport.ts';
import { until, within } from '../helpers/deadline.ts';
import {
  ANSWER,
  clientFrame,
  OPENING,
  PUBLICATION,
  REQUEST,
  STREAMS,
  type Stream,
  SUBSCRIPTION,
  startStream,
  tcpVector,
} from '../helpers/stream-masters.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { base64 } from '../helpers/vectors.ts';
import { connectRaw, HOST, type Master, RawPeer } from '../helpers/zeromq-master.ts';

const everybody = { minionIds: null };

for (const stream of STREAMS) {
  test(`${stream}: a recorded request is answered, even if sent one byte at a time`, async (t) => {
    const master = await startStream(t, stream);
    await isServed(t, stream, master);
    const slow = await connectRaw(t, master.requestPort);
    for (const byte of Buffer.concat([OPENING[stream], REQUEST[stream]])) {
      slow.write(Uint8Array.of(byte));
      await new Promise(setImmediate);
    }
    await answered(slow);
    t.deepEqual(master.transport.refusals(), {});
  });

  test(`${stream}: the handler receives the envelope and the address of the sender`, async (t) => {
    const seen: unknown[] = [];
    const master = await startStream(t, stream, {
      handler: async (bytes, { address, transport, publishPort }) => {
        seen.push(bytes.length, address, transport, publishPort);
        return ANSWER;
      },
    });
    await isServed(t, stream, master);
    t.is(seen[0], stream === 'tcp' ? REQUEST.tcp.length - 54 : REQUEST.ws.length - 8);
    t.deepEqual(seen.slice(1), [HOST, stream, master.publishPort]);
  });

  test(`${stream}: the recorded publication is written as Salt writes it`, async (t) => {
    const master = await startStream(t, stream);
    const peer = await subscribed(t, stream, master);
    const before = peer.receivedBytes;
    const { envelope, frame } = PUBLICATION[stream];
    t.deepEqual(master.transport.publish({ envelope, ...everybody }), { queued: 1, skipped: 0 });
    await until('the publication', () => peer.receivedBytes - before >= frame.length);
    t.deepEqual(peer.received.subarray(before), frame);
  });

  test(`${stream}: a minion that subscribes while a publication is held receives it`, async (t) => {
    const master = await startStream(t, stream);
    const { envelope, frame } = PUBLICATION[stream];
    master.transport.publish({ envelope, ...everybody, replayMs: 60_000 });
    const peer = await subscribed(t, stream, master);
    await until('the publication', () => peer.received.includes(frame));
    t.is(peer.received.lastIndexOf(frame), peer.received.indexOf(frame));
  });

  // Serial, because it measures the memory of the process.
  test.serial(
    `${stream}: subscribers share the memory of the publications that are held`,
    async (t) => {
      const master = await startStream(t, stream);
      const megabyte = 1_048_576;
      for (let count = 0; count < 6; count += 1) {
        const envelope = Buffer.alloc(megabyte, count);
        master.transport.publish({ envelope, ...everybody, replayMs: 60_000 });
      }
      const before = process.memoryUsage().arrayBuffers;
      for (let count = 0; count < 20; count += 1) {
        const socket = createConnection(master.publishPort, HOST).pause();
        t.teardown(() => socket.destroy());
        socket.write(SUBSCRIPTION[stream]);
      }
      await until('the publications to wait for all subscribers', () => {
        const waiting = master.transport.subscribers().map(({ queuedBytes }) => queuedBytes);
        return waiting.filter((bytes) => bytes > 2 * megabyte).length === 20;
      });
      t.true(process.memoryUsage().arrayBuffers - before < 40 * megabyte);
    },
  );

  test(`${stream}: a connection with another protocol is closed and counted`, async (t) => {
    const master = await startStream(t, stream);
    const strangers: readonly Buffer[] = [
      Buffer.from('SSH-2.0-OpenSSH_9.2\r\n\r\n\r\n'),
      Buffer.from('1603010200010001fc0303', 'hex'),
      Buffer.concat([OPENING[stream], Buffer.alloc(100, 0xc1)]),
    ];
    for (const port of [master.requestPort, master.publishPort]) {
      for (const bytes of stream === 'ws' ? [strangers[0], strangers[2]] : strangers) {
        const stranger = await connectRaw(t, port);
        if (bytes !== undefined) stranger.write(bytes);
        await stranger.closed('a stranger');
      }
    }
    const counts = Object.values(master.transport.refusals());
    t.is(
      counts.reduce((sum, count) => sum + count, 0),
      stream === 'ws' ? 4 : 6,
    );
    await isServed(t, stream, master);
  });

  test(`${stream}: a request over the limit is refused by its head`, async (t) => {
    const master = await startStream(t, stream, { limits: { maxMessageBytes: 2000 } });
    const greedy = await connectRaw(t, master.requestPort);
    greedy.write(OPENING[stream], promiseOf(stream, 1_000_000));
    await greedy.closed('a greedy one');
    t.deepEqual(master.transport.refusals(), { 'message-too-large': 1 });
    await isServed(t, stream, master);
  });

  test(`${stream}: a connection that breaks off in the middle leaves nothing behind`, async (t) => {
    const master = await startStream(t, stream);
    const halves = [OPENING[stream].subarray(0, 20), REQUEST[stream].subarray(0, 100)];
    for (const end of ['end', 'resetAndDestroy', 'destroy'] as const) {
      const peer = await connectRaw(t, master.requestPort);
      peer.write(...(stream === 'ws' ? [OPENING.ws] : []), ...halves.slice(1));
      await new Promise(setImmediate);
      peer.socket[end]();
      await peer.closed(end);
    }
    const subscriber = await subscribed(t, stream, master);
    subscriber.socket.resetAndDestroy();
    await until('nobody', () => master.transport.subscribers().length === 0);
    t.deepEqual(master.transport.refusals(), {});
    await isServed(t, stream, master);
  });

  test(`${stream}: pending requests are answered before the listener closes`, async (t) => {
    let answer = (): void => {};
    const master = await startStream(t, stream, {
      handler: () =>
        new Promise((resolve) => {
          answer = () => resolve(ANSWER);
        }),
    });
    const idle = answer;
    const peer = await connectRaw(t, master.requestPort);
    peer.write(OPENING[stream], REQUEST[stream]);
    await until('the request', () => answer !== idle);
    const closed = master.transport.close();
    answer();
    await Promise.all([answered(peer), closed]);
    t.is(peer.received.subarray(-ANSWER.length).toString('hex'), ANSWER.toString('hex'));
  });

  test(`${stream}: a request without an answer ends only its own connection`, async (t) => {
    const clock = { now: 1_700_000_000_000 };
    let requests = 0;
    const master = await startStream(t, stream, {
      now: () => clock.now,
      sweepIntervalMs: 5,
      handler: async () => {
        requests += 1;
        if (requests === 2) throw new Error('not kept');
        return ANSWER;
      },
    });
    const other = await connectRaw(t, master.requestPort);
    other.write(OPENING[stream], REQUEST[stream]);
    await answered(other);
    const unlucky = await connectRaw(t, master.requestPort);
    unlucky.write(OPENING[stream], REQUEST[stream]);
    await until('the request', () => requests === 2);
    // If it ended sooner, minions would use up their attempts at once.
    clock.now += 4_900;
    await isServed(t, stream, master);
    t.false(unlucky.socket.closed);
    clock.now += 200;
    await unlucky.closed('the request without an answer');
    t.false(unlucky.received.includes(ANSWER));
    t.deepEqual(master.transport.refusals(), { unanswered: 1 });
    const before = other.receivedBytes;
    other.write(REQUEST[stream]);
    await until('an answer', () => other.receivedBytes > before);
    await answered(other);
    // The request is sent again, as minions do.
    await isServed(t, stream, master);
  });

  test(`${stream}: a request without an answer does not delay closing`, async (t) => {
    let isAsked = false;
    const master = await startStream(t, stream, {
      // No deadline expires.
      now: () => 1_700_000_000_000,
      handler: async () => {
        isAsked = true;
        throw new Error('not kept');
      },
    });
    const peer = await connectRaw(t, master.requestPort);
    peer.write(OPENING[stream], REQUEST[stream]);
    await until('the request', () => isAsked);
    await t.notThrowsAsync(within('the end', master.transport.close(600_000)));
  });

  test(`${stream}: the number of requests of a connection in progress is limited`, async (t) => {
    let underWay = 0;
    let most = 0;
    let done = 0;
    const master = await startStream(t, stream, {
      limits: { maxRequestsInFlight: 4 },
      handler: async () => {
        underWay += 1;
        most = Math.max(most, underWay);
        await new Promise(setImmediate);
        underWay -= 1;
        done += 1;
        return ANSWER;
      },
    });
    const peer = await connectRaw(t, master.requestPort);
    peer.write(OPENING[stream], ...Array<Buffer>(50).fill(REQUEST[stream]));
    await until('the answers', () => done === 50);
    t.is(most, 4);
  });

  test(`${stream}: a subscriber that reads nothing is skipped, and does not delay others`, async (t) => {
    const master = await startStream(t, stream, { maxQueuedBytes: 1_000_000 });
    const stuck = await subscribed(t, stream, master);
    stuck.socket.pause();
    const reader = await subscribed(t, stream, master);
    const envelope = Buffer.alloc(100_000, 1);
    let skipped = 0;
    for (let index = 0; index < 200; index += 1) {
      const before = reader.receivedBytes;
      skipped += master.transport.publish({ envelope, ...everybody }).skipped;
      await until('the publication', () => reader.receivedBytes - before > envelope.length);
    }
    t.true(skipped > 0);
    for (const { queuedBytes } of master.transport.subscribers()) t.true(queuedBytes <= 1_000_000);
    t.deepEqual(master.transport.refusals(), {});
  });

  test(`${stream}: a subscriber is disconnected only far beyond the limit of its queue`, async (t) => {
    const options = { maxQueuedMessages: 3, maxMissed: 20 };
    const master = await startStream(t, stream, options);
    const stuck = await subscribed(t, stream, master);
    const envelope = Buffer.alloc(100, 1);
    // No message is written before the turn ends. Three messages wait, and twenty are missed.
    for (let index = 0; index < 23; index += 1)
      master.transport.publish({ envelope, ...everybody });
    t.deepEqual(master.transport.refusals(), {});
    await until('what waited', () => master.transport.subscribers()[0]?.queuedBytes === 0);
    for (let index = 0; index < 23; index += 1)
      master.transport.publish({ envelope, ...everybody });
    t.deepEqual(master.transport.refusals(), {});
    master.transport.publish({ envelope, ...everybody });
    await stuck.closed('far behind');
    t.deepEqual(master.transport.refusals(), { 'far-behind': 1 });
  });

  test(`${stream}: of 2,000 silent connections the newest 1,000 stay, and others are served`, async (t) => {
    const clock = { now: 1_700_000_000_000 };
    const master = await startStream(t, stream, { now: () => clock.now, sweepIntervalMs: 5 });
    const reader = await subscribed(t, stream, master);
    for (let round = 0; round < 20; round += 1) {
      await Promise.all(Array.from({ length: 100 }, () => connectRaw(t, master.requestPort)));
    }
    await until('refusals', () => master.transport.refusals()['too-many-from-address'] === 1000);
    const before = reader.receivedBytes;
    master.transport.publish({ envelope: Buffer.alloc(10), ...everybody });
    await until('a publication', () => reader.receivedBytes > before);
    clock.now += 31_000;
    const reason = stream === 'tcp' ? 'first-request-timeout' : 'handshake-timeout';
    await until('the timeouts', () => master.transport.refusals()[reason] === 1000);
    t.is(master.transport.subscribers().length, 1);
    await isServed(t, stream, master);
  });

  test(`${stream}: a connection with an unfinished request is closed after 30 seconds`, async (t) => {
    const clock = { now: 1_700_000_000_000 };
    const master = await startStream(t, stream, { now: () => clock.now, sweepIntervalMs: 5 });
    const peer = await connectRaw(t, master.requestPort);
    peer.write(OPENING[stream], REQUEST[stream], REQUEST[stream].subarray(0, 50));
    await answered(peer);
    clock.now += 29_000;
    await isServed(t, stream, master);
    t.deepEqual(master.transport.refusals(), {});
    clock.now += 2000;
    await peer.closed('half a request');
    t.deepEqual(master.transport.refusals(), { 'message-timeout': 1 });
  });

  test(`${stream}: a publish connection that reads is never closed in favour of others`, async (t) => {
    const clock = { now: 1_700_000_000_000, reads: 0 };
    const master = await startStream(t, stream, {
      now: () => {
        clock.reads += 1;
        return clock.now;
      },
      sweepIntervalMs: 5,
      handler: async (_bytes, peer) => {
        peer.identify('minion');
        return ANSWER;
      },
    });
    const peer = await subscribed(t, stream, master);
    await isServed(t, stream, master);
    master.transport.disconnect('minion');
    clock.now += 30 * 86_400_000;
    const looked = clock.reads;
    await until('a look at the deadlines', () => clock.reads > looked + 1);
    const before = peer.receivedBytes;
    const { envelope, frame } = PUBLICATION[stream];
    t.deepEqual(master.transport.publish({ envelope, ...everybody }), { queued: 1, skipped: 0 });
    await until('the publication', () => peer.receivedBytes - before >= frame.length);
    t.deepEqual(master.transport.refusals(), {});
  });

  test(`${stream}: a stranger that reads nothing is closed, but a minion stays connected`, async (t) => {
    const clock = { now: 1_700_000_000_000, reads: 0 };
    let announcements = 0;
    const master = await startStream(t, stream, {
      now: () => {
        clock.reads += 1;
        return clock.now;
      },
      sweepIntervalMs: 5,
      maxQueuedBytes: 64 * 1024 * 1024,
      announce: async () => {
        announcements += 1;
      },
      handler: async (_bytes, peer) => {
        peer.identify('minion');
        return ANSWER;
      },
    });
    await stalled(t, stream, master);
    // When this many bytes wait, reading stops.
    if (stream === 'tcp') await until('the announcement', () => announcements === 1);
    await clog(master);
    clock.now += 61_000;
    await until('its end', () => master.transport.subscribers().length === 0);
    t.deepEqual(master.transport.refusals(), { 'stalled-reader': 1 });
    // From now on, the address is known.
    await isServed(t, stream, master);
    await stalled(t, stream, master);
    await clog(master);
    clock.now += 3_600_000;
    const looked = clock.reads;
    await until('a look at the deadlines', () => clock.reads > looked + 1);
    t.is(master.transport.subscribers().length, 1);
    t.deepEqual(master.transport.refusals(), { 'stalled-reader': 1 });
  });
}

/** Connects a subscriber that does not read. */
async function stalled(t: ExecutionContext, stream: Stream, master: Master): Promise<void> {
  const peer = await subscribed(t, stream, master);
  peer.socket.pause();
}

/** Publishes more than the buffers of the system accept. */
async function clog(master: Master): Promise<void> {
  const envelope = Buffer.alloc(1_000_000, 1);
  for (let index = 0; index < 40; index += 1) master.transport.publish({ envelope, ...everybody });
  const waiting = (): number => master.transport.subscribers()[0]?.queuedBytes ?? 0;
  for (let last = 0; last !== waiting(); ) {
    last = waiting();
    for (let turn = 0; turn < 50; turn += 1) await new Promise(setImmediate);
  }
}

async function subscribed(t: ExecutionContext, stream: Stream, master: Master): Promise<RawPeer> {
  const before = master.transport.subscribers().length;
  const peer = await connectRaw(t, master.publishPort);
  peer.write(SUBSCRIPTION[stream]);
  await until('a subscriber', () => master.transport.subscribers().length === before + 1);
  if (stream === 'ws') await until('the handshake', () => peer.received.includes('\r\n\r\n'));
  return peer;
}

/** Checks that requests of a real minion are still answered. */
async function isServed(t: ExecutionContext, stream: Stream, master: Master): Promise<void> {
  const minion = await connectRaw(t, master.requestPort);
  minion.write(OPENING[stream], REQUEST[stream]);
  await answered(minion);
  minion.socket.destroy();
}

function answered(peer: RawPeer): Promise<void> {
  return until('an answer', () => peer.received.subarray(-ANSWER.length).equals(ANSWER));
}

/** Returns the beginning of a request that declares how many bytes follow. */
function promiseOf(stream: Stream, bytes: number): Buffer {
  const head = Buffer.from(
    stream === 'tcp' ? '82a46865616480a4626f6479c600000000' : '82ff0000000000000000',
    'hex',
  );
  head.writeUInt32BE(bytes, head.length - 4);
  return stream === 'tcp'
    ? head
    : Buffer.concat([head, clientFrame(0, Buffer.alloc(0)).subarray(2)]);
}

// Features of TCP: message ids, and announcements of minions.

for (const name of [
  'sign-in request, minion up to 3006.4',
  'sign-in request, 3006.5',
  'encrypted request',
]) {
  for (const form of ['frame_b64', 'frame_old_spec_b64'] as const) {
    test(`the answer to "${name}" (${form}) has the expected head`, async (t) => {
      const master = await startStream(t, 'tcp');
      const peer = await connectRaw(t, master.requestPort);
      const frame = base64(tcpVector(name)[form]);
      peer.write(frame);
      const [event] = await frames(peer, 1);
      const [asked] = new TcpFrameDecoder(frame.length).push(frame);
      if (event?.type !== 'frame' || asked?.type !== 'frame') return t.fail('no frame');
      t.deepEqual(Buffer.from(event.head), Buffer.from(asked.head));
      t.is(unpackWire(event.body), 'ok');
    });
  }
}

test('the recorded refusal is reproduced byte for byte', async (t) => {
  const refusal = Buffer.from('a8626164206c6f6164', 'hex');
  const master = await startStream(t, 'tcp', { handler: async () => refusal });
  const peer = await connectRaw(t, master.requestPort);
  peer.write(base64(tcpVector('sign-in request, minion up to 3006.4').frame_b64));
  const recorded = base64(tcpVector('refusal as text').frame_b64);
  await until('the answer', () => peer.receivedBytes === recorded.length);
  t.deepEqual(peer.received, recorded);
});

test('answers are sent when they are ready, each with the head of its request', async (t) => {
  const ready: Array<() => void> = [];
  const master = await startStream(t, 'tcp', {
    handler: () =>
      new Promise((resolve) => {
        ready.push(() => resolve(ANSWER));
      }),
  });
  const peer = await connectRaw(t, master.requestPort);
  for (const mid of ['01', '02', '03']) peer.write(request(mid));
  await until('three requests', () => ready.length === 3);
  ready[2]?.();
  t.deepEqual((await frames(peer, 1)).map(midOf), [3]);
  ready[0]?.();
  ready[1]?.();
  t.deepEqual((await frames(peer, 3)).map(midOf), [3, 1, 2]);
});

for (const [title, mid] of [
  ['nothing', 'c0'],
  ['a float', 'cb3ff8000000000000'],
  ['bytes', 'c402ffff'],
  ['a list', '9101'],
  ['an empty text', 'a0'],
  ['an integer beyond 2^53', 'cfffffffffffffffff'],
] as const) {
  test(`${title} as a message id ends the connection`, async (t) => {
    const master = await startStream(t, 'tcp');
    const peer = await connectRaw(t, master.requestPort);
    peer.write(request(mid));
    await peer.closed(title);
    t.deepEqual(master.transport.refusals(), { 'message-id': 1 });
  });
}

test('a job for some minions is sent to them and to connections that have not announced an id', async (t) => {
  const names = ['one', 'two'];
  const master = await startStream(t, 'tcp', {
    announce: async (_envelope, peer) => {
      const name = names.shift();
      if (name !== undefined) peer.identify(name);
    },
  });
  const one = await announced(t, master);
  await until('one', () => idsOf(master)[0] === 'one');
  const two = await announced(t, master);
  await until('both', () => idsOf(master)[1] === 'two');
  const unknown = await announced(t, master);
  const silent = await connectRaw(t, master.publishPort);
  await until('all', () => master.transport.subscribers().length === 4);
  const envelope = Buffer.from('envelope');
  t.is(master.transport.publish({ envelope, minionIds: ['one', 'absent'] }).queued, 3);
  t.is(master.transport.publish({ envelope, minionIds: [] }).queued, 0);
  t.is(master.transport.publish({ envelope, minionIds: null }).queued, 4);
  for (const [peer, count] of [
    [one, 2],
    [two, 1],
    [unknown, 2],
    [silent, 2],
  ] as const) {
    t.is((await frames(peer, count)).length, count);
  }
});

test('with order_masters a job for some minions is sent to all', async (t) => {
  const master = await startStream(t, 'tcp', {
    orderMasters: true,
    announce: async (_envelope, peer) => peer.identify('syndic'),
  });
  await announced(t, master);
  await until('the syndic', () => idsOf(master)[0] === 'syndic');
  t.is(master.transport.publish({ envelope: Buffer.of(1), minionIds: ['below'] }).queued, 1);
});

test('the announcement is passed on unchanged', async (t) => {
  let heard: Uint8Array | undefined;
  const master = await startStream(t, 'tcp', {
    announce: async (envelope) => {
      heard = envelope;
    },
  });
  await announced(t, master);
  await until('the announcement', () => heard !== undefined);
  const [event] = new TcpFrameDecoder(4096).push(SUBSCRIPTION.tcp);
  t.deepEqual(heard && Buffer.from(heard), event?.type === 'frame' && Buffer.from(event.body));
});

test('announcements of one connection are verified in sequence', async (t) => {
  let verify = (): void => {};
  let count = 0;
  const master = await startStream(t, 'tcp', {
    announce: () =>
      new Promise((resolve) => {
        count += 1;
        verify = resolve;
      }),
  });
  const peer = await connectRaw(t, master.publishPort);
  peer.write(...Array<Buffer>(3).fill(SUBSCRIPTION.tcp));
  for (const expected of [1, 2, 3]) {
    await until('an announcement', () => count === expected);
    verify();
  }
  peer.write(SUBSCRIPTION.tcp);
  await until('one more', () => count === 4);
  t.pass();
});

test('only the first sixteen announcements of a connection are processed', async (t) => {
  let count = 0;
  const master = await startStream(t, 'tcp', {
    announce: async () => {
      count += 1;
    },
  });
  const peer = await connectRaw(t, master.publishPort);
  peer.write(...Array<Buffer>(16).fill(SUBSCRIPTION.tcp));
  await until('sixteen', () => count === 16);
  for (let more = 0; more < 10; more += 1) {
    peer.write(SUBSCRIPTION.tcp);
    await new Promise(setImmediate);
  }
  peer.write(Buffer.of(0xc1));
  await peer.closed('behind the last one');
  t.is(count, 16);
});

test('disconnecting a minion ends the connection on which it announced itself', async (t) => {
  const master = await startStream(t, 'tcp', {
    announce: async (_envelope, peer) => peer.identify('gone'),
  });
  const gone = await announced(t, master);
  await until('it', () => idsOf(master)[0] === 'gone');
  master.transport.disconnect('another');
  t.is(master.transport.subscribers().length, 1);
  master.transport.disconnect('gone');
  await gone.closed('of the minion that is gone');
  t.deepEqual(master.transport.subscribers(), []);
});

test('an announcement over the maximum size is refused by its head', async (t) => {
  const master = await startStream(t, 'tcp');
  const peer = await connectRaw(t, master.publishPort);
  peer.write(Buffer.from('82a46865616480a4626f6479c600010000', 'hex'));
  await peer.closed('a large announcement');
  t.deepEqual(master.transport.refusals(), { 'message-too-large': 1 });
});

test('a stranger that never announces itself is closed, unless its address is known', async (t) => {
  const clock = { now: 1_700_000_000_000 };
  const master = await startStream(t, 'tcp', {
    now: () => clock.now,
    sweepIntervalMs: 5,
    handler: async (_bytes, peer) => {
      peer.identify('minion');
      return ANSWER;
    },
  });
  const stranger = await connectRaw(t, master.publishPort);
  await until('it', () => master.transport.subscribers().length === 1);
  clock.now += 31_000;
  await stranger.closed('a stranger');
  t.deepEqual(master.transport.refusals(), { 'first-request-timeout': 1 });
  const asking = await connectRaw(t, master.requestPort);
  asking.write(REQUEST.tcp);
  await frames(asking, 1);
  await connectRaw(t, master.publishPort);
  await until('it', () => master.transport.subscribers().length === 1);
  clock.now += 3_600_000;
  asking.write(REQUEST.tcp);
  await frames(asking, 2);
  t.is(master.transport.subscribers().length, 1);
});

function request(mid: string): Buffer {
  return Buffer.from(`82a46865616481a36d6964${mid}a4626f6479a26869`, 'hex');
}

async function announced(t: ExecutionContext, master: Master): Promise<RawPeer> {
  const peer = await connectRaw(t, master.publishPort);
  peer.write(SUBSCRIPTION.tcp);
  return peer;
}

function idsOf(master: Master): readonly string[] {
  return master.transport.subscribers().flatMap(({ minionIds }) => minionIds);
}

async function frames(peer: RawPeer, count: number): Promise<readonly TcpEvent[]> {
  const read = (): TcpEvent[] => new TcpFrameDecoder(1_000_000).push(peer.received);
  await until(`${count} frames`, () => read().length >= count);
  return read();
}

function midOf(event: TcpEvent): unknown {
  return event.type === 'frame' ? event.mid : undefined;
}

// Features of WebSocket: PING and CLOSE, the order of replies, and messages that would end a
// minion.

const answerFrame = Buffer.concat([Buffer.from('8203', 'hex'), ANSWER]);

test('PING is answered by PONG with its payload, even in the middle of a message', async (t) => {
  const master = await startStream(t, 'ws');
  const peer = await opened(t, master);
  peer.write(clientFrame(0x02, Buffer.from('a')), clientFrame(0x89, Buffer.from('there?')));
  peer.write(clientFrame(0x80, Buffer.from('b')));
  const pong = Buffer.concat([Buffer.from('8a06', 'hex'), Buffer.from('there?')]);
  const expected = Buffer.concat([pong, answerFrame]);
  await until('both', () => peer.received.subarray(-expected.length).equals(expected));
  t.deepEqual(master.transport.refusals(), {});
});

test('CLOSE is answered and the connection ends, as at the end of each minion request', async (t) => {
  const master = await startStream(t, 'ws');
  const peer = await opened(t, master);
  peer.write(REQUEST.ws);
  await until('the answer', () => peer.received.subarray(-answerFrame.length).equals(answerFrame));
  peer.write(clientFrame(0x88, Buffer.from('03e8', 'hex')));
  await peer.closed('after CLOSE');
  t.is(peer.received.subarray(-4).toString('hex'), '880203e8');
  t.deepEqual(master.transport.refusals(), {});
});

test('the text close ends a connection, and other text is ignored', async (t) => {
  const master = await startStream(t, 'ws');
  const peer = await opened(t, master);
  peer.write(clientFrame(0x81, Buffer.from('hello')), REQUEST.ws);
  await until('the answer', () => peer.received.subarray(-answerFrame.length).equals(answerFrame));
  peer.write(clientFrame(0x81, Buffer.from('close')));
  await peer.closed('after close');
  t.deepEqual(master.transport.refusals(), {});
});

test('a violation is reported before the connection ends', async (t) => {
  const master = await startStream(t, 'ws');
  const peer = await opened(t, master);
  peer.write(Buffer.from('8201ff', 'hex'));
  await peer.closed('without a mask');
  t.is(peer.received.subarray(-4).toString('hex'), '880203ea');
  const stranger = await connectRaw(t, master.publishPort);
  stranger.write(Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'));
  await stranger.closed('without an upgrade');
  t.true(stranger.received.toString().startsWith('HTTP/1.1 426 '));
  t.deepEqual(master.transport.refusals(), { unmasked: 1, 'bad-upgrade': 1 });
});

test('answers are sent in the order of the requests, whichever is ready first', async (t) => {
  const ready: Array<() => void> = [];
  const master = await startStream(t, 'ws', {
    handler: (body) =>
      new Promise((resolve) => {
        ready.push(() => resolve(Buffer.from(body)));
      }),
  });
  const peer = await opened(t, master);
  for (const name of ['a', 'b', 'c']) peer.write(clientFrame(0x82, Buffer.from(name)));
  await until('three requests', () => ready.length === 3);
  for (const answer of ready.reverse()) answer();
  await until('the answers', () => peer.received.toString('latin1').endsWith('c'));
  t.is(peer.received.subarray(-9).toString('latin1'), '\x82\x01a\x82\x01b\x82\x01c');
});

test('a publication goes to all unless its targets are empty, but not to unfinished handshakes', async (t) => {
  const master = await startStream(t, 'ws');
  await subscribedWebsocket(t, master);
  const half = await connectRaw(t, master.publishPort);
  half.write(SUBSCRIPTION.ws.subarray(0, 50));
  const envelope = Buffer.from('envelope');
  t.is(master.transport.publish({ envelope, minionIds: ['one'] }).queued, 1);
  t.is(master.transport.publish({ envelope, minionIds: [] }).queued, 0);
  t.is(master.transport.publish({ envelope, minionIds: null }).queued, 1);
});

test('a publication that minions refuse is not sent, and is reported', async (t) => {
  const master = await startStream(t, 'ws');
  const peer = await subscribedWebsocket(t, master);
  const before = peer.receivedBytes;
  const limit = 4 * 1024 * 1024;
  const heads = 10 + 5;
  const publish = (bytes: number) =>
    master.transport.publish({ envelope: Buffer.alloc(bytes), minionIds: null });
  t.deepEqual(publish(limit), { queued: 0, skipped: 1 });
  t.deepEqual(publish(limit - heads), { queued: 0, skipped: 1 });
  t.deepEqual(publish(limit - heads - 1), { queued: 1, skipped: 0 });
  await until('the one', () => peer.receivedBytes - before === limit - 1);
});

async function opened(t: ExecutionContext, master: Master): Promise<RawPeer> {
  const peer = await connectRaw(t, master.requestPort);
  peer.write(OPENING.ws);
  return peer;
}

async function subscribedWebsocket(t: ExecutionContext, master: Master): Promise<RawPeer> {
  const peer = await connectRaw(t, master.publishPort);
  peer.write(SUBSCRIPTION.ws);
  await until('the subscriber', () => master.transport.subscribers().length === 1);
  await until('the handshake', () => peer.received.includes('\r\n\r\n'));
  return peer;
}

// TLS on the ports of TCP and WebSocket, and which clients are accepted.

const served: TlsOptions = {
  certFile: file('master.pem'),
  keyFile: file('master.key'),
  caFile: file('ca.pem'),
  clientCertificates: 'none',
};
const minion = { cert: readFileSync(file('minion.pem')), key: readFileSync(file('minion.key')) };
const stranger = {
  cert: readFileSync(file('stranger.pem')),
  key: readFileSync(file('stranger.key')),
};

for (const stream of STREAMS) {
  test(`${stream}: requests and publications are sent over TLS`, async (t) => {
    const master = await startStream(t, stream, { tls: served });
    t.true(await isServedOverTls(t, stream, master));
    const subscriber = await secure(t, master.publishPort);
    subscriber.write(SUBSCRIPTION[stream]);
    await until('a subscriber', () => master.transport.subscribers().length === 1);
    const envelope = Buffer.alloc(3_000_000, 'envelope ');
    master.transport.publish({ envelope, minionIds: null });
    await until('it', () => subscriber.receivedBytes > envelope.length);
    t.true(subscriber.received.subarray(-envelope.length).equals(envelope));
    t.is(master.transport.subscribers()[0]?.address, HOST);
  });

  test(`${stream}: both ports use a renewed certificate, and ignore an invalid one`, async (t) => {
    const directory = temporaryDirectory(t);
    const [certFile, keyFile] = [join(directory, 'c.pem'), join(directory, 'k.pem')];
    copyFileSync(file('master.pem'), certFile);
    copyFileSync(file('master.key'), keyFile);
    const master = await startStream(t, stream, {
      tls: { ...served, certFile, keyFile, renewalIntervalMs: 60_000 },
    });
    copyFileSync(file('minion.pem'), certFile);
    await t.throwsAsync(async () => master.transport.renewCertificate?.(), {
      instanceOf: TransportError,
      code: 'ERR_TLS',
    });
    for (const port of [master.requestPort, master.publishPort]) {
      t.is(
        await shownOn(port),
        new X509Certificate(readFileSync(file('master.pem'))).fingerprint256,
      );
    }
    copyFileSync(file('minion.key'), keyFile);
    t.deepEqual(await master.transport.renewCertificate?.(), [certFile]);
    for (const port of [master.requestPort, master.publishPort]) {
      t.is(await shownOn(port), new X509Certificate(minion.cert).fingerprint256);
    }
    t.true(await isServedOverTls(t, stream, master));
  });

  test(`${stream}: both ports refuse clients without TLS`, async (t) => {
    const master = await startStream(t, stream, { tls: served });
    for (const port of [master.requestPort, master.publishPort]) {
      const plain = await connectRaw(t, port);
      plain.write(OPENING[stream], REQUEST[stream]);
      await plain.closed('without TLS');
    }
    t.deepEqual(master.transport.refusals(), { 'tls-handshake': 2 });
    t.true(await isServedOverTls(t, stream, master));
  });

  test(`${stream}: clients without a certificate are refused if one is required`, async (t) => {
    const master = await startStream(t, stream, {
      tls: { ...served, clientCertificates: 'required' },
    });
    t.false(await isServedOverTls(t, stream, master));
    t.false(await isServedOverTls(t, stream, master, stranger));
    t.true(await isServedOverTls(t, stream, master, minion));
    t.deepEqual(master.transport.subscribers(), []);
  });

  test(`${stream}: an invalid certificate is refused if certificates are optional`, async (t) => {
    const master = await startStream(t, stream, {
      tls: { ...served, clientCertificates: 'optional' },
    });
    t.true(await isServedOverTls(t, stream, master));
    t.false(await isServedOverTls(t, stream, master, stranger));
    t.deepEqual(master.transport.refusals(), { 'tls-certificate': 1 });
    t.true(await isServedOverTls(t, stream, master, minion));
  });
}

test('only the configured TLS version is accepted', async (t) => {
  const master = await startStream(t, 'tcp', { tls: { ...served, onlyVersion: 'TLSv1.2' } });
  t.false(await isServedOverTls(t, 'tcp', master, { minVersion: 'TLSv1.3' }));
  t.true(await isServedOverTls(t, 'tcp', master));
});

test('only the configured ciphers are accepted', async (t) => {
  const only = {
    ...served,
    onlyVersion: 'TLSv1.2',
    ciphers: 'ECDHE-ECDSA-AES256-GCM-SHA384',
  } as const;
  const master = await startStream(t, 'tcp', { tls: only });
  t.false(await isServedOverTls(t, 'tcp', master, { ciphers: 'ECDHE-ECDSA-AES128-GCM-SHA256' }));
  t.true(await isServedOverTls(t, 'tcp', master));
});

test('an unfinished handshake is closed after 30 seconds, or with the listener', async (t) => {
  const clock = { now: 1_700_000_000_000 };
  const options = { tls: served, now: () => clock.now, sweepIntervalMs: 5 };
  const master = await startStream(t, 'tcp', options);
  const half = await connectRaw(t, master.requestPort);
  half.write(Buffer.from('1603010200010001fc0303', 'hex'));
  t.true(await isServedOverTls(t, 'tcp', master));
  clock.now += 31_000;
  await half.closed('half a handshake');
  t.is(master.transport.refusals()['handshake-timeout'], 1);
  const other = await connectRaw(t, master.publishPort);
  t.true(await isServedOverTls(t, 'tcp', master));
  await within('the end', master.transport.close());
  await other.closed('with the listener');
});

for (const [title, wrong] of [
  ['a certificate that is not there', { certFile: file('none.pem') }],
  ['a certificate that is none', { certFile: file('README.md') }],
  ['the key of another', { keyFile: file('minion.key') }],
  ['ciphers that nobody has', { ciphers: 'NONE-SUCH' }],
] as const) {
  test(`${title} is reported at the start`, async (t) => {
    await t.throwsAsync(startStream(t, 'tcp', { tls: { ...served, ...wrong } }), {
      instanceOf: TransportError,
      code: 'ERR_TLS',
    });
  });
}

function file(name: string): string {
  return join('test', 'fixtures', 'tls', name);
}

async function secure(
  t: ExecutionContext,
  port: number,
  options: ConnectionOptions = {},
): Promise<RawPeer> {
  const ca = readFileSync(file('ca.pem'));
  const socket = connect({ host: HOST, port, ca, ...options });
  t.teardown(() => socket.destroy());
  return new RawPeer(socket);
}

/** Whether a minion with this certificate gets a reply. Otherwise its connection is ended. */
async function isServedOverTls(
  t: ExecutionContext,
  stream: Stream,
  master: Master,
  options: ConnectionOptions = {},
): Promise<boolean> {
  const peer = await secure(t, master.requestPort, options);
  peer.write(OPENING[stream], REQUEST[stream]);
  const answered = (): boolean => peer.received.subarray(-ANSWER.length).equals(ANSWER);
  await until('an answer or the end', () => answered() || peer.socket.closed);
  peer.socket.destroy();
  return answered();
}

/** Returns the fingerprint of the certificate that a new connection receives. */
async function shownOn(port: number): Promise<string | undefined> {
  const peer = connect({ port, host: HOST, rejectUnauthorized: false });
  await once(peer, 'secureConnect');
  const fingerprint = peer.getPeerX509Certificate()?.fingerprint256;
  peer.destroy();
  return fingerprint;
}
