/** What only WebSocket has: PING and CLOSE, order, and messages that would end a minion. */
import test, { type ExecutionContext } from 'ava';
import { until } from '../helpers/deadline.ts';
import {
  ANSWER,
  clientFrame,
  OPENING,
  REQUEST,
  SUBSCRIPTION,
  startStream,
} from '../helpers/stream-masters.ts';
import { connectRaw, type Master, type RawPeer } from '../helpers/zeromq-master.ts';

const answerFrame = Buffer.concat([Buffer.from('8203', 'hex'), ANSWER]);

test('PING is answered by PONG with its payload, also in the middle of a message', async (t) => {
  const master = await startStream(t, 'ws');
  const peer = await opened(t, master);
  peer.write(clientFrame(0x02, Buffer.from('a')), clientFrame(0x89, Buffer.from('there?')));
  peer.write(clientFrame(0x80, Buffer.from('b')));
  const pong = Buffer.concat([Buffer.from('8a06', 'hex'), Buffer.from('there?')]);
  const expected = Buffer.concat([pong, answerFrame]);
  await until('both', () => peer.received.subarray(-expected.length).equals(expected));
  t.deepEqual(master.transport.refusals(), {});
});

test('CLOSE is answered and the connection ends, as minions end every request', async (t) => {
  const master = await startStream(t, 'ws');
  const peer = await opened(t, master);
  peer.write(REQUEST.ws);
  await until('the answer', () => peer.received.subarray(-answerFrame.length).equals(answerFrame));
  peer.write(clientFrame(0x88, Buffer.from('03e8', 'hex')));
  await peer.closed('after CLOSE');
  t.is(peer.received.subarray(-4).toString('hex'), '880203e8');
  t.deepEqual(master.transport.refusals(), {});
});

test('the text close ends a connection, other text is passed over', async (t) => {
  const master = await startStream(t, 'ws');
  const peer = await opened(t, master);
  peer.write(clientFrame(0x81, Buffer.from('hello')), REQUEST.ws);
  await until('the answer', () => peer.received.subarray(-answerFrame.length).equals(answerFrame));
  peer.write(clientFrame(0x81, Buffer.from('close')));
  await peer.closed('after close');
  t.deepEqual(master.transport.refusals(), {});
});

test('a breach is told before the connection ends', async (t) => {
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

test('answers leave in the order of the requests, whichever is ready first', async (t) => {
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

test('a publication is for all but when it is for nobody; half a handshake gets none', async (t) => {
  const master = await startStream(t, 'ws');
  await subscribed(t, master);
  const half = await connectRaw(t, master.publishPort);
  half.write(SUBSCRIPTION.ws.subarray(0, 50));
  const envelope = Buffer.from('envelope');
  t.is(master.transport.publish({ envelope, minionIds: ['one'] }).queued, 1);
  t.is(master.transport.publish({ envelope, minionIds: [] }).queued, 0);
  t.is(master.transport.publish({ envelope, minionIds: null }).queued, 1);
});

test('a publication that minions refuse is sent to nobody, and told', async (t) => {
  const master = await startStream(t, 'ws');
  const peer = await subscribed(t, master);
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

async function subscribed(t: ExecutionContext, master: Master): Promise<RawPeer> {
  const peer = await connectRaw(t, master.publishPort);
  peer.write(SUBSCRIPTION.ws);
  await until('the subscriber', () => master.transport.subscribers().length === 1);
  await until('the handshake', () => peer.received.includes('\r\n\r\n'));
  return peer;
}
