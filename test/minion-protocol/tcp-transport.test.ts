/** What only TCP has: message ids, and minions that say who they are. */
import test, { type ExecutionContext } from 'ava';
import { unpackWire } from '../../minion-protocol/payload.ts';
import { type TcpEvent, TcpFrameDecoder } from '../../minion-protocol/tcp-frames.ts';
import { until } from '../helpers/deadline.ts';
import {
  ANSWER,
  REQUEST,
  SUBSCRIPTION,
  startStream,
  tcpVector,
} from '../helpers/stream-masters.ts';
import { base64 } from '../helpers/vectors.ts';
import { connectRaw, type Master, type RawPeer } from '../helpers/zeromq-master.ts';

for (const name of [
  'sign-in request, minion up to 3006.4',
  'sign-in request, 3006.5',
  'encrypted request',
]) {
  for (const form of ['frame_b64', 'frame_old_spec_b64'] as const) {
    test(`the answer to "${name}" (${form}) has its head`, async (t) => {
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

test('the recorded refusal is written byte for byte', async (t) => {
  const refusal = Buffer.from('a8626164206c6f6164', 'hex');
  const master = await startStream(t, 'tcp', { handler: async () => refusal });
  const peer = await connectRaw(t, master.requestPort);
  peer.write(base64(tcpVector('sign-in request, minion up to 3006.4').frame_b64));
  const recorded = base64(tcpVector('refusal as text').frame_b64);
  await until('the answer', () => peer.receivedBytes === recorded.length);
  t.deepEqual(peer.received, recorded);
});

test('answers leave as they are ready, each with the head of its request', async (t) => {
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

test('a job for some goes to them and to those who have not said who they are', async (t) => {
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

test('with order_masters a job for some goes to all', async (t) => {
  const master = await startStream(t, 'tcp', {
    orderMasters: true,
    announce: async (_envelope, peer) => peer.identify('syndic'),
  });
  await announced(t, master);
  await until('the syndic', () => idsOf(master)[0] === 'syndic');
  t.is(master.transport.publish({ envelope: Buffer.of(1), minionIds: ['below'] }).queued, 1);
});

test('the announcement is handed on as it came', async (t) => {
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

test('announcements of one connection are verified one after the other', async (t) => {
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

test('of many announcements over one connection the first sixteen are looked at', async (t) => {
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

test('disconnecting a minion ends the connection over which it announced itself', async (t) => {
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

test('an announcement larger than any is refused by its head', async (t) => {
  const master = await startStream(t, 'tcp');
  const peer = await connectRaw(t, master.publishPort);
  peer.write(Buffer.from('82a46865616480a4626f6479c600010000', 'hex'));
  await peer.closed('a large announcement');
  t.deepEqual(master.transport.refusals(), { 'message-too-large': 1 });
});

test('a stranger that never announces itself is closed, but not from a known address', async (t) => {
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
