import { createHash } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import { Subscriber, XSubscriber } from 'zeromq';
import { dialZeromq } from '../../minion-protocol/transport/zeromq-dialer.ts';
import { until, within } from '../helpers/deadline.ts';
import { connectRaw, HOST, type Master, startMaster } from '../helpers/zeromq-master.ts';
import { GREETING, hex, READY_SUB } from '../helpers/zmtp-bytes.ts';

test('20,000 publications reach a SUB in order, none lost', async (t) => {
  const master = await startMaster(t);
  const subscriber = await subscribe(t, master, ['']);
  for (let index = 0; index < 20_000; index += 1) {
    const outcome = master.transport.publish(everybody(`${index}`));
    if (outcome.queued !== 1) t.fail(`publication ${index} was not queued`);
    // Paced by what the subscriber has read, so that it never has 1000 waiting.
    if (index % 500 === 499) {
      for (let expected = index - 499; expected <= index; expected += 1) {
        const [envelope] = await subscriber.receive();
        if (`${envelope}` !== `${expected}`) t.fail(`received ${envelope} for ${expected}`);
      }
    }
  }
  t.deepEqual(master.transport.refusals(), {});
});

test('an XSUB subscribes as well', async (t) => {
  const master = await startMaster(t);
  const socket = new XSubscriber({ linger: 0, receiveTimeout: 10_000 });
  t.teardown(() => socket.close());
  socket.connect(`tcp://${HOST}:${master.publishPort}`);
  await socket.send(hex('01'));
  await until('the subscription', () => master.transport.subscribers().length === 1);
  master.transport.publish(everybody('hello'));
  t.is(`${(await socket.receive())[0]}`, 'hello');
});

test('without filtering a subscription matches the beginning of the envelope', async (t) => {
  const master = await startMaster(t);
  const subscriber = await subscribe(t, master, ['ab']);
  t.deepEqual(master.transport.publish(everybody('b')), { queued: 0, skipped: 0 });
  t.deepEqual(master.transport.publish(everybody('a')), { queued: 0, skipped: 0 });
  t.deepEqual(master.transport.publish(everybody('ab')), { queued: 1, skipped: 0 });
  t.deepEqual(master.transport.publish(everybody('abc')), { queued: 1, skipped: 0 });
  t.deepEqual(await frames(subscriber), ['ab']);
  t.deepEqual(await frames(subscriber), ['abc']);
});

test('a topic that was cancelled is no longer sent', async (t) => {
  const master = await startMaster(t);
  const subscriber = await subscribe(t, master, ['a', 'b']);
  subscriber.unsubscribe('a');
  await until('the cancellation', () => master.transport.subscribers()[0]?.topics.length === 1);
  t.deepEqual(master.transport.subscribers()[0]?.topics, ['b']);
  t.is(master.transport.publish(everybody('a')).queued, 0);
});

test('with filtering each minion gets its own topic, and broadcasts', async (t) => {
  const master = await startMaster(t, { filtering: true });
  const one = await subscribe(t, master, ['broadcast', sha1('one')]);
  const two = await subscribe(t, master, ['broadcast', sha1('two')]);
  t.is(master.transport.publish(to('job', ['one', 'three'])).queued, 1);
  t.is(master.transport.publish(to('both', ['one', 'two'])).queued, 2);
  t.is(master.transport.publish(everybody('all')).queued, 2);
  t.deepEqual(await frames(one), [sha1('one'), 'job']);
  t.deepEqual(await frames(one), [sha1('one'), 'both']);
  t.deepEqual(await frames(one), ['broadcast', 'all']);
  t.deepEqual(await frames(two), [sha1('two'), 'both']);
  t.deepEqual(await frames(two), ['broadcast', 'all']);
});

test('a filtering master reaches a minion that does not filter, once', async (t) => {
  const master = await startMaster(t, { filtering: true });
  const minion = await subscribe(t, master, ['']);
  t.is(master.transport.publish(to('job', ['one', 'two', 'three'])).queued, 1);
  t.is(master.transport.publish(everybody('all')).queued, 1);
  t.deepEqual(await frames(minion), [sha1('one'), 'job']);
  t.deepEqual(await frames(minion), ['broadcast', 'all']);
});

test('one connection with the topics of several minions gets them all', async (t) => {
  const master = await startMaster(t, { filtering: true });
  const proxy = await subscribe(t, master, [sha1('one'), sha1('two')]);
  t.is(master.transport.publish(to('job', ['one', 'two'])).queued, 1);
  t.deepEqual(await frames(proxy), [sha1('one'), 'job']);
  t.deepEqual(await frames(proxy), [sha1('two'), 'job']);
});

test('with order_masters syndics hear of what goes to single minions', async (t) => {
  const master = await startMaster(t, { filtering: true, orderMasters: true });
  const syndic = await subscribe(t, master, ['broadcast', 'syndic']);
  master.transport.publish(to('job', ['one']));
  t.deepEqual(await frames(syndic), ['syndic', 'job']);
});

test('a publication to 20,000 ids reaches the few that are here', async (t) => {
  const master = await startMaster(t, { filtering: true });
  const minion = await subscribe(t, master, [sha1('minion-19999')]);
  const ids = Array.from({ length: 20_000 }, (_, index) => `minion-${index}`);
  t.is(master.transport.publish(to('job', ids)).queued, 1);
  t.deepEqual(await frames(minion), [sha1('minion-19999'), 'job']);
});

test('who subscribes while publications are held gets them first, in order, and once', async (t) => {
  const master = await startMaster(t);
  const here = await subscribe(t, master, ['']);
  const held = { minionIds: null, holdMs: 60_000 };
  master.transport.publish({ ...held, envelope: Buffer.from('1') });
  master.transport.publish({ ...held, envelope: Buffer.from('2') });
  master.transport.publish(everybody('not held'));
  const later = await subscribe(t, master, ['']);
  master.transport.publish(everybody('3'));
  for (const expected of ['1', '2', '3']) t.deepEqual(await frames(later), [expected]);
  for (const expected of ['1', '2', 'not held', '3']) t.deepEqual(await frames(here), [expected]);
});

test('with filtering a newcomer gets what is held of all its topics in order', async (t) => {
  const master = await startMaster(t, { filtering: true });
  const hold = { holdMs: 60_000 };
  master.transport.publish({ ...to('own', ['one']), ...hold });
  master.transport.publish({ ...to('of another', ['two']), ...hold });
  master.transport.publish({ ...everybody('all'), ...hold });
  const one = await subscribe(t, master, ['broadcast', sha1('one')]);
  master.transport.publish(to('new', ['one']));
  t.deepEqual(await frames(one), [sha1('one'), 'own']);
  t.deepEqual(await frames(one), ['broadcast', 'all']);
  t.deepEqual(await frames(one), [sha1('one'), 'new']);
});

test('what is held is bounded as the queue of one subscriber', async (t) => {
  const master = await startMaster(t, { maxQueuedMessages: 2, maxQueuedBytes: 1000 });
  const hold = { minionIds: null, holdMs: 60_000 };
  for (const text of ['1', '2', '3']) {
    master.transport.publish({ envelope: Buffer.from(text), ...hold });
  }
  const first = await subscribe(t, master, ['']);
  t.deepEqual(await frames(first), ['2']);
  t.deepEqual(await frames(first), ['3']);
  master.transport.publish({ envelope: Buffer.alloc(1001), ...hold });
  master.transport.publish({ envelope: Buffer.from('4'), ...hold });
  const second = await subscribe(t, master, ['']);
  t.deepEqual(await frames(second), ['4']);
});

test('a publication is held no longer than it says', async (t) => {
  const master = await startMaster(t);
  master.transport.publish({ envelope: Buffer.from('old'), minionIds: null, replayMs: 1 });
  await new Promise((resolve) => setTimeout(resolve, 2));
  const later = await subscribe(t, master, ['']);
  master.transport.publish(everybody('new'));
  t.deepEqual(await frames(later), ['new']);
});

test('a large publication arrives whole', async (t) => {
  const master = await startMaster(t);
  const subscriber = await subscribe(t, master, ['']);
  const envelope = Buffer.alloc(9_000_000, 'envelope ');
  master.transport.publish({ envelope, minionIds: null });
  t.true(envelope.equals((await subscriber.receive())[0] ?? new Uint8Array(0)));
});

test('who reads nothing is skipped over its limits, and delays nobody', async (t) => {
  const master = await startMaster(t, { maxQueuedBytes: 1_000_000 });
  const stuck = await connectRaw(t, master.publishPort);
  stuck.write(GREETING, READY_SUB, hex('000101'));
  stuck.socket.pause();
  const envelope = Buffer.alloc(100_000, 1);
  const subscriber = await subscribe(t, master, ['']);
  await until('both', () => master.transport.subscribers().length === 2);
  let skipped = 0;
  for (let index = 0; index < 200; index += 1) {
    skipped += master.transport.publish({ envelope, minionIds: null }).skipped;
    t.is((await subscriber.receive())[0]?.length, envelope.length);
  }
  t.true(skipped > 0);
  for (const { queuedBytes } of master.transport.subscribers()) t.true(queuedBytes <= 1_000_000);
});

test('more messages than pub_hwm do not wait for one subscriber', async (t) => {
  const master = await startMaster(t, { maxQueuedMessages: 10 });
  await subscribe(t, master, ['']);
  const outcomes = Array.from({ length: 30 }, () => master.transport.publish(everybody('x')));
  t.is(outcomes.filter((outcome) => outcome.queued === 1).length, 10);
  t.is(outcomes.filter((outcome) => outcome.skipped === 1).length, 20);
});

test('a minion dials, hears publications without their topics, and follows a restart', async (t) => {
  const first = await startMaster(t, { filtering: true });
  const heard: string[] = [];
  const minion = dialZeromq({ host: HOST, requestPort: first.requestPort, reconnectMs: 20 });
  t.teardown(() => minion.close());
  await minion.subscribe(first.publishPort, ['broadcast', sha1('one')], (envelope) => {
    heard.push(Buffer.from(envelope).toString());
  });
  await until('the subscription', () => first.transport.subscribers()[0]?.topics.length === 2);
  first.transport.publish(to('before', ['one']));
  await until('the first publication', () => heard.length === 1);
  await first.transport.close();
  const second = await startMaster(t, { publishPort: first.publishPort });
  await until('the subscription again', () => second.transport.subscribers().length === 1);
  t.is(second.transport.publish(everybody('broadcast, plain')).queued, 1);
  await until('the second publication', () => heard.length === 2);
  t.deepEqual(heard, ['before', 'broadcast, plain']);
});

test('disconnecting a minion ends the subscriber with its topic and no other', async (t) => {
  const master = await startMaster(t, { filtering: true });
  const socket = await connectRaw(t, master.publishPort);
  socket.write(GREETING, READY_SUB, hex('0029 01'), Buffer.from(sha1('gone')));
  await subscribe(t, master, [sha1('stays')]);
  await until('both', () => master.transport.subscribers().length === 2);
  master.transport.disconnect('gone');
  await socket.closed('of the minion that is gone');
  t.deepEqual(
    master.transport.subscribers().map(({ topics }) => topics),
    [[sha1('stays')]],
  );
});

async function subscribe(
  t: ExecutionContext,
  master: Master,
  topics: readonly string[],
): Promise<Subscriber> {
  const socket = new Subscriber({ linger: 0, receiveTimeout: 10_000 });
  t.teardown(() => socket.close());
  const before = master.transport.subscribers().length;
  socket.subscribe(...topics);
  socket.connect(`tcp://${HOST}:${master.publishPort}`);
  await until('a subscriber', () => {
    const described = master.transport.subscribers();
    return described.length > before && described.at(-1)?.topics.length === topics.length;
  });
  return socket;
}

async function frames(subscriber: Subscriber): Promise<string[]> {
  const received = await within('a publication', subscriber.receive());
  return received.map((frame) => frame.toString());
}

function everybody(envelope: string) {
  return { envelope: Buffer.from(envelope), minionIds: null };
}

function to(envelope: string, minionIds: readonly string[]) {
  return { envelope: Buffer.from(envelope), minionIds };
}

function sha1(id: string): string {
  return createHash('sha1').update(id).digest('hex');
}
