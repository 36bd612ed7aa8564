/** Members of a cluster share handles and one outbox. */
import type { ServerResponse } from 'node:http';
import test, { type ExecutionContext } from 'ava';
import { until } from '../../helpers/deadline.ts';
import { type TestMember, twoMembers } from '../cluster.ts';
import { openTestSignals, type SignalsUnderTest, type TestOptions } from './open-signals.ts';
import { always, type Recorder, recorderFor } from './recorder.ts';

const accepted = always(200, 'null');

interface Site {
  readonly service: Recorder;
  readonly a: SignalsUnderTest;
  readonly b: SignalsUnderTest;
  readonly members: readonly [TestMember, TestMember];
}

/** Opens both members. Member a has the lease. */
async function site(t: ExecutionContext, options: TestOptions = {}): Promise<Site> {
  const service = await recorderFor(t, accepted);
  const members = await twoMembers(t);
  const open = ({ area }: TestMember): Promise<SignalsUnderTest> =>
    openTestSignals(t, [service.origin], { ...options, state: area });
  const [a, b] = [await open(members[0]), await open(members[1])];
  await members[0].begin();
  return { service, a, b, members };
}

function handle({ service }: Pick<Site, 'service'>, more: object = {}) {
  const signal = { endpoint: `${service.origin}/signal`, token: 'tOken' };
  return { alias: 'ready', minions: ['m1', 'm2'], signal, ...more };
}

function dataOf({ requests }: Recorder): unknown[] {
  return requests.map(({ body }) => JSON.parse(body).data);
}

test('a handle of one member routes signals of another, and the member with the lease delivers them once', async (t) => {
  const all = await site(t);
  const { service, a, b, members } = all;
  const { id } = await a.handles.add(handle(all));
  await members[1].applied();
  t.is((await b.handles.show('ready')).id, id);
  const first = await b.signal('m1', 'heat/ready', { data: 1 }, 'same');
  await members[0].applied();
  t.is(await a.signal('m1', 'heat/ready', { data: 1 }, 'same'), first, 'the same request again');
  await b.signal('m1', 'heat/ready', { data: 2 }, 'another');
  await a.told('signal/delivered', 2);
  t.deepEqual(dataOf(service), [1, 2]);
  t.deepEqual(await a.outbox.list(), []);
  await members[1].applied();
  t.deepEqual(await b.outbox.list(), []);
  t.is((await b.outbox.list({ isDelivered: true })).length, 2);
  t.deepEqual(
    b.fired.map(({ tag }) => tag),
    ['signal/accepted', 'signal/accepted'],
  );
  await b.handles.remove('ready');
  await members[0].applied();
  await t.throwsAsync(a.handles.show('ready'), { code: 'ERR_HANDLE_UNKNOWN' });
});

test('the member that takes over delivers waiting signals in the order of the log', async (t) => {
  const all = await site(t);
  const { service, a, b, members } = all;
  await a.handles.add(handle(all));
  service.answer = always(503);
  await a.signal('m1', 'heat/ready', { data: 0 });
  await service.heard(1);
  members[0].end();
  await members[1].applied();
  for (const [index, to] of [b, a, b, a].entries()) {
    await to.signal('m1', 'heat/ready', { data: index + 1 }, `request ${index}`);
  }
  const before = service.requests.length;
  service.answer = accepted;
  await members[1].begin();
  await b.told('signal/delivered', 5);
  t.deepEqual(dataOf(service).slice(before), [0, 1, 2, 3, 4]);
  t.deepEqual(
    a.fired.filter(({ tag }) => tag === 'signal/delivered'),
    [],
  );
});

test('a delivery by a member that has lost the lease has no effect', async (t) => {
  const all = await site(t);
  const { service, a, b, members } = all;
  await a.handles.add(handle(all));
  const open: ServerResponse[] = [];
  service.answer = (_request, response) => open.push(response);
  await a.signal('m1', 'heat/ready', { data: 1 });
  await service.heard(1);
  await members[1].begin();
  await service.heard(2);
  const [first, second] = open;
  first?.writeHead(404).end('gone');
  // The member tries again, because nothing has changed.
  await Promise.race([service.heard(3), a.told('signal/failed')]);
  t.deepEqual(
    a.fired.filter(({ tag }) => tag === 'signal/failed'),
    [],
  );
  members[0].end();
  second?.writeHead(200).end('null');
  await b.told('signal/delivered');
  t.deepEqual(await b.outbox.list(), []);
});

test('two members register handles of one alias at once, and one of them is refused', async (t) => {
  const all = await site(t);
  const { a, b } = all;
  const added = await Promise.allSettled(
    [a, b, a, b].map(({ handles }, index) =>
      handles.add(handle(all, { alias: 'one', minions: [`m${index}`] })),
    ),
  );
  t.deepEqual(
    added.flatMap((it) => (it.status === 'rejected' ? it.reason.code : [])),
    ['ERR_HANDLE_EXISTS', 'ERR_HANDLE_EXISTS', 'ERR_HANDLE_EXISTS'],
  );
});

test('a held signal is delivered once to a handle that another member registers', async (t) => {
  const all = await site(t);
  const { service, a, b, members } = all;
  await b.signal('m1', 'heat/ready', { data: 1 });
  await b.handles.add(handle(all));
  await a.told('signal/delivered');
  t.deepEqual(dataOf(service), [1]);
  await b.signal('m3', 'heat/ready');
  await members[0].applied();
  t.is((await a.outbox.list())[0]?.state, 'held');
  await a.dismiss('m3');
  await members[1].applied();
  t.deepEqual(
    (await b.outbox.list()).map(({ state }) => state),
    ['dead'],
  );
});

test('the member with the lease expires signals that were held for too long', async (t) => {
  let time = Date.now();
  const { a, b } = await site(t, { now: () => time, section: { held_ttl: 0.01 } });
  await b.signal('m1', 'heat/later');
  time += 100;
  await a.told('signal/failed');
  t.deepEqual(
    b.fired.filter(({ tag }) => tag === 'signal/failed'),
    [],
  );
  await until('the audit record', () => a.audited.length === 1);
});

test('a signal in the dead-letter list is retried once, whichever member gets the request', async (t) => {
  const all = await site(t);
  const { service, a, b, members } = all;
  await a.handles.add(handle(all));
  service.answer = always(404, 'gone');
  const id = (await a.signal('m1', 'heat/ready', { data: 1 })) ?? '';
  await a.told('signal/failed');
  await members[1].applied();
  service.answer = accepted;
  const retried = await Promise.allSettled([a, b].map(({ outbox }) => outbox.retry({ id })));
  t.is(retried.filter(({ status }) => status === 'fulfilled').length, 1);
  await a.told('signal/delivered');
  t.is(service.requests.length, 2);
  await members[1].applied();
  t.deepEqual(await b.outbox.list(), []);
});
