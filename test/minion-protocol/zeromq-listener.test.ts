import test from 'ava';
import { createZeromqListener, dialZeromq } from '#minion-protocol';
import { TransportError } from '#minion-protocol/transport/transport.ts';
import { freePort } from '../../bench/free-port.ts';
import { until, waitMs } from '../helpers/deadline.ts';
import { connectRaw, HOST, openRaw, startMaster } from '../helpers/zeromq-master.ts';
import { GREETING, HELLO, hex, READY_REQ, READY_SUB } from '../helpers/zmtp-bytes.ts';

for (const taken of ['requestPort', 'publishPort'] as const) {
  test(`the error for an occupied ${taken} names it, and the other port is released`, async (t) => {
    const holder = await startMaster(t);
    const other = await freePort();
    const port = holder.requestPort;
    const ports = { requestPort: other, publishPort: other, [taken]: port };
    const listener = createZeromqListener({ host: HOST, ...ports });
    const error = await t.throwsAsync(
      listener.listen(async (body) => body),
      {
        instanceOf: TransportError,
        code: 'ERR_LISTEN',
      },
    );
    t.true(error?.message.includes(`${HOST}:${port}`));
    t.is(error?.cause instanceof Error && 'code' in error.cause && error.cause.code, 'EADDRINUSE');
    await startMaster(t, { requestPort: other });
  });
}

test('a listener can listen only once', async (t) => {
  const { transport } = await startMaster(t);
  const again = transport.listen(async (body) => body);
  await t.throwsAsync(again, { instanceOf: TransportError, code: 'ERR_CLOSED' });
});

test('listening and closing a hundred times leaves no handle open', async (t) => {
  const handles = () => process.getActiveResourcesInfo().filter((name) => name.startsWith('TCP'));
  for (let round = 0; round < 100; round += 1) {
    const listener = createZeromqListener({ host: HOST, requestPort: 0, publishPort: 0 });
    const { requestPort, publishPort } = await listener.listen(async (body) => body);
    const [asking, subscribed] = await Promise.all([openRaw(requestPort), openRaw(publishPort)]);
    asking.write(GREETING, READY_REQ, HELLO);
    subscribed.write(GREETING, READY_SUB, hex('000101'));
    await until('a subscriber', () => listener.subscribers().length === 1);
    await Promise.all([listener.close(), listener.close()]);
    t.deepEqual(listener.subscribers(), []);
    await Promise.all([asking.closed('asking'), subscribed.closed('subscribed')]);
  }
  await until('the handles to go', () => handles().length === 0);
});

test('closing waits for requests in progress', async (t) => {
  let answer = (_body: Uint8Array): void => {};
  const master = await startMaster(
    t,
    {},
    () =>
      new Promise((resolve) => {
        answer = resolve;
      }),
  );
  const minion = dialZeromq({ host: HOST, requestPort: master.requestPort });
  t.teardown(() => minion.close());
  const asked = minion.request(Buffer.from('request'), waitMs);
  const isWaiting = answer;
  await until('the request', () => answer !== isWaiting);
  const closed = master.transport.close();
  answer(Buffer.from('answer'));
  t.is(Buffer.from(await asked).toString(), 'answer');
  await closed;
});

test('closing does not wait longer than the given time for a missing answer', async (t) => {
  const master = await startMaster(t, {}, () => new Promise(() => {}));
  const peer = await connectRaw(t, master.requestPort);
  peer.write(GREETING, READY_REQ, HELLO);
  await until('our READY', () => peer.receivedBytes > 64);
  await master.transport.close(10);
  await t.notThrowsAsync(peer.closed('after the grace'));
});

test('pending publications are written before closing', async (t) => {
  const master = await startMaster(t);
  const peer = await connectRaw(t, master.publishPort);
  peer.write(GREETING, READY_SUB, hex('000101'));
  await until('a subscriber', () => master.transport.subscribers().length === 1);
  await until('our READY', () => peer.receivedBytes > 64);
  const before = peer.receivedBytes;
  master.transport.publish({ envelope: new Uint8Array(3_000_000), minionIds: null });
  await master.transport.close();
  await peer.closed('with the listener');
  t.is(peer.receivedBytes - before, 9 + 3_000_000);
});

test('a subscriber is described by address, time and topics', async (t) => {
  const master = await startMaster(t);
  const before = Date.now();
  const peer = await connectRaw(t, master.publishPort);
  peer.write(GREETING, READY_SUB, hex('000101'));
  await until('a subscriber', () => master.transport.subscribers().length === 1);
  const [subscriber] = master.transport.subscribers();
  t.like(subscriber, { address: HOST, topics: [''], queuedBytes: 0 });
  t.true(Math.abs((subscriber?.connectedAt ?? 0) - before) < 60_000);
});
