/** What TCP and WebSocket have in common: their ports, their bounds, their ends. */
import test, { type ExecutionContext } from 'ava';
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
} from '../helpers/stream-masters.ts';
import { connectRaw, HOST, type Master, type RawPeer } from '../helpers/zeromq-master.ts';

const everybody = { minionIds: null };

for (const stream of STREAMS) {
  test(`${stream}: a recorded request is answered, one byte at a time too`, async (t) => {
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

  test(`${stream}: the handler is given the envelope, and where it came from`, async (t) => {
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

  test(`${stream}: who subscribes while a publication is held gets it`, async (t) => {
    const master = await startStream(t, stream);
    const { envelope, frame } = PUBLICATION[stream];
    master.transport.publish({ envelope, ...everybody, replayMs: 60_000 });
    const peer = await subscribed(t, stream, master);
    await until('the publication', () => peer.received.includes(frame));
    t.is(peer.received.lastIndexOf(frame), peer.received.indexOf(frame));
  });

  test(`${stream}: what is not the protocol is closed and counted`, async (t) => {
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

  test(`${stream}: who breaks off in the middle leaves nothing behind`, async (t) => {
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

  test(`${stream}: requests that wait are answered before the listener closes`, async (t) => {
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

  test(`${stream}: a request without an answer ends its connection and no other`, async (t) => {
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
    // Sooner, minions would use up their tries at once.
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
    // Sent again, as minions do.
    await isServed(t, stream, master);
  });

  test(`${stream}: a request without an answer does not delay the end`, async (t) => {
    let isAsked = false;
    const master = await startStream(t, stream, {
      // No deadline passes.
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

  test(`${stream}: no more requests of a connection are under way than allowed`, async (t) => {
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

  test(`${stream}: a subscriber that reads nothing is skipped, and delays nobody`, async (t) => {
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

  test(`${stream}: a subscriber is given up only far beyond its queue`, async (t) => {
    const options = { maxQueuedMessages: 3, maxMissed: 20 };
    const master = await startStream(t, stream, options);
    const stuck = await subscribed(t, stream, master);
    const envelope = Buffer.alloc(100, 1);
    // None is written before the turn ends: three wait, twenty are missed.
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

  test(`${stream}: of 2,000 silent connections the newest thousand stay, others are served`, async (t) => {
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

  test(`${stream}: half a request is closed after 30 seconds`, async (t) => {
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

  test(`${stream}: a publish connection that reads is never closed, whoever else goes`, async (t) => {
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

  test(`${stream}: a stranger that reads nothing is closed, a minion is not`, async (t) => {
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
    // Once so much waits, nothing more is read.
    if (stream === 'tcp') await until('the announcement', () => announcements === 1);
    await clog(master);
    clock.now += 61_000;
    await until('its end', () => master.transport.subscribers().length === 0);
    t.deepEqual(master.transport.refusals(), { 'stalled-reader': 1 });
    // From now on the address is known.
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

/** A subscriber that reads nothing. */
async function stalled(t: ExecutionContext, stream: Stream, master: Master): Promise<void> {
  const peer = await subscribed(t, stream, master);
  peer.socket.pause();
}

/** More than the buffers of the system take. */
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

/** The positive control: what a real minion sends is answered. */
async function isServed(t: ExecutionContext, stream: Stream, master: Master): Promise<void> {
  const minion = await connectRaw(t, master.requestPort);
  minion.write(OPENING[stream], REQUEST[stream]);
  await answered(minion);
  minion.socket.destroy();
}

function answered(peer: RawPeer): Promise<void> {
  return until('an answer', () => peer.received.subarray(-ANSWER.length).equals(ANSWER));
}

/** The beginning of a request that says how much is to come. */
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
