import { createHash } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import { Dealer, Request, Subscriber, XSubscriber } from 'zeromq';
import { createZeromqListener, dialZeromq } from '#minion-protocol';
import { TransportError } from '#minion-protocol/transport/transport.ts';
import { freePort } from '../../bench/free-port.ts';
import { until, waitMs, within } from '../helpers/deadline.ts';
import { connectRaw, HOST, type Master, startMaster } from '../helpers/zeromq-master.ts';
import { GREETING, HELLO, hex, READY_REQ, READY_SUB } from '../helpers/zmtp-bytes.ts';

test('a REQ client gets one answer to each request, in order', async (t) => {
  const master = await startMaster(t, {}, async (request) => Buffer.from(`<${text(request)}>`));
  const client = request(t, master.requestPort);
  for (let index = 0; index < 3000; index += 1) {
    await client.send(`${index}`);
    t.is(text((await client.receive())[0]), `<${index}>`);
  }
});

test('20 REQ clients are served concurrently', async (t) => {
  const master = await startMaster(t);
  const clients = Array.from({ length: 20 }, () => request(t, master.requestPort));
  const ask = async (client: Request, name: number) => {
    for (let index = 0; index < 100; index += 1) {
      await client.send(`${name}/${index}`);
      t.is(text((await client.receive())[0]), `${name}/${index}`);
    }
  };
  await Promise.all(clients.map(ask));
});

test('a REQ client gets large answers one after the other', async (t) => {
  const answer = Buffer.alloc(1024 * 1024, 'x');
  const master = await startMaster(t, {}, async () => answer);
  const client = request(t, master.requestPort);
  const ask = async (): Promise<void> => {
    for (let index = 0; index < 100; index += 1) {
      await client.send(`${index}`);
      const [body] = await client.receive();
      t.is(body?.length, answer.length);
    }
  };
  await within('100 large answers', ask());
});

test('80,000 requests pipelined by DEALERs are answered in order, without loss', async (t) => {
  const master = await startMaster(t);
  const pipeline = async (name: number) => {
    const client = dealer(t, master.requestPort);
    const count = 20_000;
    const send = async () => {
      for (let index = 0; index < count; index += 1) await client.send(['', `${name}/${index}`]);
    };
    const sent = send();
    for (let index = 0; index < count; index += 1) {
      const [empty, body] = await client.receive();
      if (empty?.length !== 0 || text(body) !== `${name}/${index}`) {
        t.fail(`answer ${index} of client ${name} is another`);
        break;
      }
    }
    await sent;
  };
  await within('all answers', Promise.all([0, 1, 2, 3].map(pipeline)));
  t.deepEqual(master.transport.refusals(), {});
});

test('answers are sent in the order of the requests, whichever is ready first', async (t) => {
  const ready: Array<() => void> = [];
  const master = await startMaster(t, {}, async (body) => {
    await new Promise<void>((resolve) => {
      ready.push(resolve);
    });
    return body;
  });
  const client = dealer(t, master.requestPort);
  for (const name of ['a', 'b', 'c']) await client.send(['', name]);
  await until('three requests', () => ready.length === 3);
  for (const answer of ready.reverse()) answer();
  for (const name of ['a', 'b', 'c']) t.is(text((await client.receive())[1]), name);
});

test('the frames before the empty frame are returned with the answer', async (t) => {
  const master = await startMaster(t);
  const client = dealer(t, master.requestPort);
  await client.send(['one', 'two', '', 'body']);
  t.deepEqual((await client.receive()).map(text), ['one', 'two', '', 'body']);
});

test('the number of requests of one connection in progress is limited', async (t) => {
  let underWay = 0;
  let most = 0;
  const master = await startMaster(t, { limits: { maxRequestsInFlight: 8 } }, async (body) => {
    underWay += 1;
    most = Math.max(most, underWay);
    await new Promise(setImmediate);
    underWay -= 1;
    return body;
  });
  const client = dealer(t, master.requestPort);
  for (let index = 0; index < 500; index += 1) await client.send(['', `${index}`]);
  for (let index = 0; index < 500; index += 1) t.is(text((await client.receive())[1]), `${index}`);
  t.is(most, 8);
});

test('the number of requests of all connections in progress is limited', async (t) => {
  let underWay = 0;
  let most = 0;
  const master = await startMaster(t, { limits: { maxActiveRequests: 3 } }, async (body) => {
    underWay += 1;
    most = Math.max(most, underWay);
    await new Promise(setImmediate);
    underWay -= 1;
    return body;
  });
  const minions = Array.from({ length: 40 }, () => dial(t, master.requestPort));
  const ask = async (name: number): Promise<string> =>
    text(await minions[name % minions.length]?.request(Buffer.from(`${name}`), waitMs));
  const names = Array.from({ length: 400 }, (_, name) => name);
  t.deepEqual(await Promise.all(names.map(ask)), names.map(String));
  t.is(most, 3);
});

test('a request that gives up its turn does not block others, and is answered later', async (t) => {
  const slow: Array<() => void> = [];
  const master = await startMaster(
    t,
    { limits: { maxActiveRequests: 1 } },
    async (body, _peer, turn) => {
      if (text(body) !== 'slow') return body;
      turn.release();
      turn.release();
      await new Promise<void>((resolve) => {
        slow.push(resolve);
      });
      return body;
    },
  );
  const patient = [0, 1, 2].map(() =>
    dial(t, master.requestPort).request(Buffer.from('slow'), waitMs),
  );
  await until('three slow requests', () => slow.length === 3);
  t.is(text(await dial(t, master.requestPort).request(Buffer.from('quick'), waitMs)), 'quick');
  for (const answer of slow) answer();
  t.deepEqual((await Promise.all(patient)).map(text), ['slow', 'slow', 'slow']);
});

test('a turn is not lost if the waiting connection was closed', async (t) => {
  const held: Array<() => void> = [];
  const master = await startMaster(t, { limits: { maxActiveRequests: 1 } }, async (body) => {
    if (text(body) === 'held') {
      await new Promise<void>((resolve) => {
        held.push(resolve);
      });
    }
    return body;
  });
  const first = dial(t, master.requestPort).request(Buffer.from('held'), waitMs);
  await until('the held request', () => held.length === 1);
  const leaver = await connectRaw(t, master.requestPort);
  leaver.write(GREETING, READY_REQ, HELLO);
  await until('its end', () => leaver.receivedBytes > 64);
  leaver.socket.destroy();
  const last = dial(t, master.requestPort).request(Buffer.from('last'), waitMs);
  for (const answer of held) answer();
  t.deepEqual([await first, await last].map(text), ['held', 'last']);
});

test('the total size of requests in progress is limited', async (t) => {
  let underWay = 0;
  let most = 0;
  const master = await startMaster(t, { limits: { maxMessageBytes: 1000 } }, async (body) => {
    underWay += 1;
    most = Math.max(most, underWay);
    await new Promise(setImmediate);
    underWay -= 1;
    return body;
  });
  const client = dealer(t, master.requestPort);
  for (let index = 0; index < 50; index += 1) await client.send(['', new Uint8Array(300)]);
  for (let index = 0; index < 50; index += 1) t.is((await client.receive())[1]?.length, 300);
  t.is(most, 4);
});

test('a message of 5 MB is complete in both directions', async (t) => {
  const master = await startMaster(t);
  const minion = dial(t, master.requestPort);
  const body = Buffer.alloc(5_000_000, 'saltbridge ');
  t.true(body.equals(await minion.request(body, waitMs)));
});

test('a request over the limit ends its connection, and the next connection is served', async (t) => {
  const master = await startMaster(t, { limits: { maxMessageBytes: 1000 } });
  const greedy = dealer(t, master.requestPort);
  await greedy.send(['', new Uint8Array(1001)]);
  await until('the refusal', () => master.transport.refusals()['message-too-large'] !== undefined);
  t.is((await dial(t, master.requestPort).request(new Uint8Array(1000), waitMs)).length, 1000);
});

test('a request without an answer ends only its own connection', async (t) => {
  const clock = { now: 1_700_000_000_000 };
  const asked: string[] = [];
  const options = { now: () => clock.now, sweepIntervalMs: 5 };
  const master = await startMaster(t, options, async (body) => {
    asked.push(text(body));
    if (text(body) === 'bad') throw new Error('handler');
    return body;
  });
  const unlucky = dealer(t, master.requestPort);
  const other = dealer(t, master.requestPort);
  await unlucky.send(['', 'bad']);
  await until('the request', () => asked.includes('bad'));
  t.deepEqual(master.transport.refusals(), {});
  clock.now += 5_100;
  await until('the refusal', () => master.transport.refusals().unanswered === 1);
  await other.send(['', 'good']);
  t.is(text((await other.receive())[1]), 'good');
});

test('a request without an answer times out, and the next one is answered', async (t) => {
  let isSilent = true;
  const master = await startMaster(t, {}, async (body) => {
    if (isSilent) await new Promise(() => {});
    return body;
  });
  const minion = dial(t, master.requestPort);
  const lost = minion.request(Buffer.from('lost'), 50);
  await t.throwsAsync(lost, { instanceOf: TransportError, code: 'ERR_TIMEOUT' });
  isSilent = false;
  t.is(text(await minion.request(Buffer.from('heard'), waitMs)), 'heard');
});

test('concurrent requests are sent one after the other', async (t) => {
  const master = await startMaster(t);
  const minion = dial(t, master.requestPort);
  const names = Array.from({ length: 50 }, (_, index) => `${index}`);
  const answers = await Promise.all(names.map((name) => minion.request(Buffer.from(name), waitMs)));
  t.deepEqual(answers.map(text), names);
});

test('a minion reconnects to the master after a restart', async (t) => {
  // Connections of other programs use ports of 127.0.0.1 and may take this port in between.
  const host = '127.0.0.2';
  const first = createZeromqListener({ host, requestPort: 0, publishPort: 0 });
  t.teardown(() => first.close(0));
  const { requestPort } = await first.listen(async () => Buffer.from('first'));
  const minion = dial(t, requestPort, host);
  t.is(text(await minion.request(new Uint8Array(1), waitMs)), 'first');
  await first.close();
  await startMaster(t, { host, requestPort }, async () => Buffer.from('second'));
  // As with Salt, a message that was sent over the ended connection is lost, and the request is
  // repeated.
  let isOver = false;
  t.teardown(() => {
    isOver = true;
  });
  const ask = async (): Promise<string> => {
    let answer = '';
    while (answer === '' && !isOver) {
      answer = text(await minion.request(new Uint8Array(1), 500).catch(() => undefined));
    }
    return answer;
  };
  t.is(await within('the answer', ask()), 'second');
});

test('closing ends pending requests, and later ones', async (t) => {
  const master = await startMaster(t, {}, () => new Promise(() => {}));
  const minion = dial(t, master.requestPort);
  const waiting = minion.request(new Uint8Array(1), waitMs);
  const refused = t.throwsAsync(waiting, { instanceOf: TransportError, code: 'ERR_CLOSED' });
  await new Promise(setImmediate);
  await minion.close();
  await minion.close();
  await refused;
  const late = minion.request(new Uint8Array(1), waitMs);
  await t.throwsAsync(late, { instanceOf: TransportError, code: 'ERR_CLOSED' });
});

test('connecting to an invalid address fails', async (t) => {
  const minion = dialZeromq({ host: 'a b', requestPort: 1 });
  t.teardown(() => minion.close());
  const asked = minion.request(new Uint8Array(1), waitMs);
  await t.throwsAsync(asked, { instanceOf: TransportError, code: 'ERR_CONNECT' });
});

function request(t: ExecutionContext, port: number): Request {
  const socket = new Request({ linger: 0 });
  t.teardown(() => socket.close());
  socket.connect(`tcp://${HOST}:${port}`);
  return socket;
}

function dealer(t: ExecutionContext, port: number): Dealer {
  const socket = new Dealer({ linger: 0, receiveTimeout: 20_000 });
  t.teardown(() => socket.close());
  socket.connect(`tcp://${HOST}:${port}`);
  return socket;
}

function dial(t: ExecutionContext, requestPort: number, host = HOST) {
  const minion = dialZeromq({ host, requestPort, reconnectMs: 20 });
  t.teardown(() => minion.close());
  return minion;
}

function text(bytes: Uint8Array | undefined): string {
  return Buffer.from(bytes ?? []).toString();
}

test('20,000 publications reach a SUB in order, without loss', async (t) => {
  const master = await startMaster(t);
  const subscriber = await subscribe(t, master, ['']);
  for (let index = 0; index < 20_000; index += 1) {
    const outcome = master.transport.publish(everybody(`${index}`));
    if (outcome.queued !== 1) t.fail(`publication ${index} was not queued`);
    // The speed follows what the subscriber has read, so that it never has 1000 waiting messages.
    if (index % 500 === 499) {
      for (let expected = index - 499; expected <= index; expected += 1) {
        const [envelope] = await subscriber.receive();
        if (`${envelope}` !== `${expected}`) t.fail(`received ${envelope} for ${expected}`);
      }
    }
  }
  t.deepEqual(master.transport.refusals(), {});
});

test('an XSUB can subscribe', async (t) => {
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

test('a publication is no longer sent after its topic was cancelled', async (t) => {
  const master = await startMaster(t);
  const subscriber = await subscribe(t, master, ['a', 'b']);
  subscriber.unsubscribe('a');
  await until('the cancellation', () => master.transport.subscribers()[0]?.topics.length === 1);
  t.deepEqual(master.transport.subscribers()[0]?.topics, ['b']);
  t.is(master.transport.publish(everybody('a')).queued, 0);
});

test('with filtering each minion gets its own topic and broadcasts', async (t) => {
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

test('a filtering master sends once to a minion that does not filter', async (t) => {
  const master = await startMaster(t, { filtering: true });
  const minion = await subscribe(t, master, ['']);
  t.is(master.transport.publish(to('job', ['one', 'two', 'three'])).queued, 1);
  t.is(master.transport.publish(everybody('all')).queued, 1);
  t.deepEqual(await frames(minion), [sha1('one'), 'job']);
  t.deepEqual(await frames(minion), ['broadcast', 'all']);
});

test('one connection with the topics of several minions gets all their publications', async (t) => {
  const master = await startMaster(t, { filtering: true });
  const proxy = await subscribe(t, master, [sha1('one'), sha1('two')]);
  t.is(master.transport.publish(to('job', ['one', 'two'])).queued, 1);
  t.deepEqual(await frames(proxy), [sha1('one'), 'job']);
  t.deepEqual(await frames(proxy), [sha1('two'), 'job']);
});

test('with order_masters syndics receive publications for single minions', async (t) => {
  const master = await startMaster(t, { filtering: true, orderMasters: true });
  const syndic = await subscribe(t, master, ['broadcast', 'syndic']);
  master.transport.publish(to('job', ['one']));
  t.deepEqual(await frames(syndic), ['syndic', 'job']);
});

test('a publication to 20,000 ids reaches the few connected minions', async (t) => {
  const master = await startMaster(t, { filtering: true });
  const minion = await subscribe(t, master, [sha1('minion-19999')]);
  const ids = Array.from({ length: 20_000 }, (_, index) => `minion-${index}`);
  t.is(master.transport.publish(to('job', ids)).queued, 1);
  t.deepEqual(await frames(minion), [sha1('minion-19999'), 'job']);
});

test('a subscriber that arrives while publications are held gets them first, in order, and once', async (t) => {
  const master = await startMaster(t);
  const here = await subscribe(t, master, ['']);
  const held = { minionIds: null, replayMs: 60_000 };
  master.transport.publish({ ...held, envelope: Buffer.from('1') });
  master.transport.publish({ ...held, envelope: Buffer.from('2') });
  master.transport.publish(everybody('not held'));
  const later = await subscribe(t, master, ['']);
  master.transport.publish(everybody('3'));
  for (const expected of ['1', '2', '3']) t.deepEqual(await frames(later), [expected]);
  for (const expected of ['1', '2', 'not held', '3']) t.deepEqual(await frames(here), [expected]);
});

test('with filtering a new subscriber gets held publications of all its topics in order', async (t) => {
  const master = await startMaster(t, { filtering: true });
  const hold = { replayMs: 60_000 };
  master.transport.publish({ ...to('own', ['one']), ...hold });
  master.transport.publish({ ...to('of another', ['two']), ...hold });
  master.transport.publish({ ...everybody('all'), ...hold });
  const one = await subscribe(t, master, ['broadcast', sha1('one')]);
  master.transport.publish(to('new', ['one']));
  t.deepEqual(await frames(one), [sha1('one'), 'own']);
  t.deepEqual(await frames(one), ['broadcast', 'all']);
  t.deepEqual(await frames(one), [sha1('one'), 'new']);
});

test('held publications have the same limits as the queue of one subscriber', async (t) => {
  const master = await startMaster(t, { maxQueuedMessages: 2, maxQueuedBytes: 1000 });
  const hold = { minionIds: null, replayMs: 60_000 };
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

test('a publication is held only for its hold time', async (t) => {
  const master = await startMaster(t);
  master.transport.publish({ envelope: Buffer.from('old'), minionIds: null, replayMs: 1 });
  const published = performance.now();
  await until('its time to be over', () => performance.now() - published > 2);
  const later = await subscribe(t, master, ['']);
  master.transport.publish(everybody('new'));
  t.deepEqual(await frames(later), ['new']);
});

test('a large publication arrives complete', async (t) => {
  const master = await startMaster(t);
  const subscriber = await subscribe(t, master, ['']);
  const envelope = Buffer.alloc(9_000_000, 'envelope ');
  master.transport.publish({ envelope, minionIds: null });
  t.true(envelope.equals((await subscriber.receive())[0] ?? new Uint8Array(0)));
});

test('a subscriber over its limits is skipped, and does not delay others', async (t) => {
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

test('no more than pub_hwm messages wait for one subscriber', async (t) => {
  const master = await startMaster(t, { maxQueuedMessages: 10 });
  await subscribe(t, master, ['']);
  const outcomes = Array.from({ length: 30 }, () => master.transport.publish(everybody('x')));
  t.is(outcomes.filter((outcome) => outcome.queued === 1).length, 10);
  t.is(outcomes.filter((outcome) => outcome.skipped === 1).length, 20);
});

test('a minion receives publications without their topics, and reconnects after a restart', async (t) => {
  const first = await startMaster(t, { filtering: true, publishPort: await freePort() });
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

test('disconnecting a minion ends only the subscriber with its topic', async (t) => {
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
