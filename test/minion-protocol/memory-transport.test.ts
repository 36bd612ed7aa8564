import test from 'ava';
import { minionTopic, type Peer } from '#minion-protocol';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import type { RequestHandler } from '#minion-protocol/transport/transport.ts';
import { TransportError } from '#minion-protocol/transport/transport.ts';
import { until, waitMs } from '../helpers/deadline.ts';

const echo: RequestHandler = async (request) => request;

test('a request arrives asynchronously with the address of its sender, and gets a reply', async (t) => {
  const { master, dial } = createMemoryTransport();
  const peers: Peer[] = [];
  await master.listen(async (request, peer) => {
    peers.push(peer);
    return request;
  });
  const answered = dial('one', '10.0.0.1').request(Buffer.from('hello'), waitMs);
  t.is(peers.length, 0);
  t.is(Buffer.from(await answered).toString(), 'hello');
  t.is(peers[0]?.address, '10.0.0.1');
});

test('bytes are copied in transit', async (t) => {
  const { master, dial } = createMemoryTransport();
  const kept: Uint8Array[] = [];
  await master.listen(async (request) => {
    kept.push(request);
    return request;
  });
  const body = Buffer.from('hello');
  const answer = await dial('one').request(body, waitMs);
  answer.fill(0);
  t.is(Buffer.from(kept[0] ?? []).toString(), 'hello');
  t.is(body.toString(), 'hello');
});

test('a minion sends one request at a time', async (t) => {
  const { master, dial } = createMemoryTransport();
  let underWay = 0;
  await master.listen(async (request) => {
    underWay += 1;
    t.is(underWay, 1);
    await new Promise(setImmediate);
    underWay -= 1;
    return request;
  });
  const minion = dial('one');
  await Promise.all(Array.from({ length: 20 }, () => minion.request(new Uint8Array(1), waitMs)));
});

test('a request without a reply times out', async (t) => {
  const { master, dial } = createMemoryTransport();
  await master.listen(() => new Promise(() => {}));
  const asked = dial('one').request(new Uint8Array(1), 5);
  await t.throwsAsync(asked, { instanceOf: TransportError, code: 'ERR_TIMEOUT' });
});

test('a request that the master drops fails at once, without a reason', async (t) => {
  const { master, dial } = createMemoryTransport();
  await master.listen(async () => {
    throw new Error('not kept');
  });
  const error = await t.throwsAsync(dial('one').request(new Uint8Array(1), waitMs), {
    instanceOf: TransportError,
    code: 'ERR_TIMEOUT',
  });
  t.is(error?.cause, undefined);
});

test('a request to a master that does not listen fails', async (t) => {
  const { master, dial } = createMemoryTransport();
  const early = dial('one').request(new Uint8Array(1), waitMs);
  await t.throwsAsync(early, { instanceOf: TransportError, code: 'ERR_CONNECT' });
  await master.listen(echo);
  await master.close();
  const late = dial('one').request(new Uint8Array(1), waitMs);
  await t.throwsAsync(late, { instanceOf: TransportError, code: 'ERR_CONNECT' });
});

test('every connected minion receives a publication', async (t) => {
  const { master, dial } = createMemoryTransport();
  const heard: string[] = [];
  for (const id of ['one', 'two']) {
    await dial(id).subscribe(4505, null, (envelope) =>
      heard.push(`${id} ${Buffer.from(envelope)}`),
    );
  }
  t.deepEqual(master.publish({ envelope: Buffer.from('job'), minionIds: ['one'] }), {
    queued: 2,
    skipped: 0,
  });
  t.deepEqual(heard, []);
  t.is(master.subscribers()[0]?.queuedBytes, 3);
  await until('the publications', () => heard.length === 2);
  t.deepEqual(heard, ['one job', 'two job']);
});

test('with filtering, the topics select the receivers', async (t) => {
  const { master, dial } = createMemoryTransport({ filtering: true });
  const heard: string[] = [];
  for (const id of ['one', 'two']) {
    await dial(id).subscribe(4505, ['broadcast', minionTopic(id)], () => heard.push(id));
  }
  await dial('all').subscribe(4505, null, () => heard.push('all'));
  t.is(master.publish({ envelope: Buffer.from('job'), minionIds: ['one'] }).queued, 2);
  t.is(master.publish({ envelope: Buffer.from('job'), minionIds: null }).queued, 3);
  await until('the publications', () => heard.length === 5);
  t.deepEqual(heard, ['one', 'all', 'one', 'two', 'all']);
});

test('disconnecting a minion drops only its own pending replies', async (t) => {
  const { master, dial } = createMemoryTransport();
  const answers: Array<() => void> = [];
  await master.listen(async (request) => {
    await new Promise<void>((resolve) => {
      answers.push(resolve);
    });
    return request;
  });
  const gone = dial('gone').request(new Uint8Array(1), 50);
  const stays = dial('stays').request(new Uint8Array(1), waitMs);
  await until('both requests', () => answers.length === 2);
  master.disconnect('gone');
  for (const answer of answers) answer();
  t.is((await stays).length, 1);
  await t.throwsAsync(gone, { instanceOf: TransportError, code: 'ERR_TIMEOUT' });
});

test('a closed minion receives nothing and cannot send requests', async (t) => {
  const { master, dial } = createMemoryTransport();
  await master.listen(() => new Promise(() => {}));
  const minion = dial('one');
  await minion.subscribe(4505, null, () => t.fail('heard something'));
  const waiting = minion.request(new Uint8Array(1), waitMs);
  const refused = t.throwsAsync(waiting, { instanceOf: TransportError, code: 'ERR_CLOSED' });
  master.publish({ envelope: new Uint8Array(1), minionIds: null });
  await minion.close();
  await minion.close();
  await refused;
  t.is(master.publish({ envelope: new Uint8Array(1), minionIds: null }).queued, 0);
  const late = minion.request(new Uint8Array(1), waitMs);
  await t.throwsAsync(late, { instanceOf: TransportError, code: 'ERR_CLOSED' });
});

test('closing waits for pending replies, up to a limit', async (t) => {
  const { master, dial } = createMemoryTransport();
  let answer = (): void => {};
  await master.listen(async (request) => {
    await new Promise<void>((resolve) => {
      answer = resolve;
    });
    return request;
  });
  const before = answer;
  const asked = dial('one').request(new Uint8Array(1), waitMs);
  await until('the request', () => answer !== before);
  const closed = master.close();
  answer();
  await closed;
  t.is((await asked).length, 1);
  await master.close(1);
});
