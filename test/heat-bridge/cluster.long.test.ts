/** Another member of a cluster continues runs of the bridge. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import Type from 'typebox';
import { allow } from '#acl';
import { connectExtension, type ExtensionClient } from '#client';
import { type Bridge, createBridge, type StackDetails } from '#guests';
import type { CommandUpdate, PlanUpdate, RunStarted } from '#heat-bridge';
import { ClusterRuns } from '#heat-bridge/commands/cluster-runs.ts';
import { createSilentLogger } from '#master';
import type { MinionFunction } from '#minion-protocol';
import { createSaltApi } from '#salt-api';
import { createMaster } from '#server';
import { defineRow, readStore, restoreStore } from '#store';
import { type ClusterMaster, ClusterMasters } from '../helpers/cluster-masters.ts';
import { until, within } from '../helpers/deadline.ts';
import { collect } from '../helpers/fleet.ts';
import { TcpProxy } from '../helpers/tcp-proxy.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { eventually } from '../interop/eventually.ts';
import { type TestMember, twoMembers } from './cluster.ts';
import { type StandInHeat, startStandInHeat } from './deployments/stand-in-heat.ts';
import { acl, echo, grant, twice } from './stage.ts';

const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-cluster-runs-'));
const ofStacks = allow('deployments', {
  subject: { service: 'deployments' },
  action: 'command',
  resource: { fun: 'demo.*', within: 'web*' },
});
const ofBob = allow('bob', {
  subject: { user: 'bob' },
  action: 'command',
  resource: { fun: 'demo.*', within: 'web1' },
});
const newBridge = (): Bridge => createBridge({ commands: [echo], plans: [twice] });
let heat: StandInHeat;
let a: ClusterMaster;
let b: ClusterMaster;
/** Member that stores what b writes after a has stopped. */
let c: ClusterMaster;
const bridges = { a: newBridge(), b: newBridge(), c: newBridge() };
/** Calls that the minion of b received. Each returns when the test calls `answer`. */
const asked: { text: string; answer: () => void }[] = [];
/** Resolves with the latest call with this text when there were `times` of them. */
async function heard(text: string, times = 1): Promise<{ answer: () => void }> {
  const calls = (): typeof asked => asked.filter((it) => it.text === text);
  await until('the minion to be asked', () => calls().length === times);
  return calls().at(-1) ?? { answer: () => {} };
}

let disconnect: () => unknown = () => {};
let closeHeat: () => unknown = () => {};

test.before(async () => {
  heat = await startStandInHeat({ teardown: (end) => (closeHeat = end) });
  const masters = new ClusterMasters(directory, {
    keysize: 2048,
    acl: acl([grant, ofStacks, ofBob]),
    externalAuth: { sharedsecret: { ann: ['.*', '@runner', '@wheel'], bob: ['test.*'] } },
    eauth: { sharedsecret: 'secret' },
    bridge: {
      handles: { endpoints: [heat.origin] },
      deployments: { poll_interval: 1, retry_max_delay: 1 },
    },
  });
  a = await masters.first('a', [bridges.a]);
  b = await masters.join('b', a, [bridges.b]);
  c = await masters.join('c', a, [bridges.c]);
  await connect();
});

test.after.always(async () => {
  await disconnect();
  await b?.master.close();
  await c?.master.close();
  await a?.master.close();
  await closeHeat();
  rmSync(directory, { recursive: true, force: true });
});

async function connect(): Promise<void> {
  let isConnected = false;
  const functions: Record<string, MinionFunction> = {
    'test.echo': ({ kwargs: { text } }) =>
      new Promise((resolve) => {
        asked.push({ text: String(text), answer: () => resolve(`${text}`) });
      }),
  };
  const connecting = b
    .connect({ teardown: (end) => (disconnect = end) }, 'web1', functions)
    .finally(() => {
      isConnected = true;
    });
  while (!isConnected) {
    await b.master.keys.accept({ match: 'web1' });
    await new Promise((resolve) => setImmediate(resolve));
  }
  await connecting;
}

test.serial('every member finds a run of another member by its key and its id', async (t) => {
  const request = { target: ['web1'], params: { text: 'one' }, idempotencyKey: 'key' };
  const first = await bridges.a.run('demo.echo', request);
  const call = await heard('one');
  const again = await bridges.b.run('demo.echo', request);
  const found = await bridges.b.find(first.id, 'local');
  t.deepEqual([again.id, again.isRepeated, found.id], [first.id, true, first.id]);
  call.answer();
  const outcomes = await within(
    'the outcomes',
    Promise.all([first, again, found].map((it) => it.outcome)),
  );
  for (const { status, results } of outcomes) {
    t.deepEqual([status, results[0]?.return], ['succeeded', 'one']);
  }
  await heard('one');
  const { members = [] } = (await b.master.cluster.status()) ?? {};
  const catalogs = members.map(({ versions }) => versions?.catalog);
  t.deepEqual(catalogs, [catalogs[0], catalogs[0], catalogs[0]]);
  t.regex(catalogs[0] ?? '', /^[0-9a-f]{12}$/);
});

test.serial('the same key at two members at once starts one run', async (t) => {
  const request = { target: ['web1'], params: { text: 'two' }, idempotencyKey: 'other' };
  const runs = await Promise.all([bridges.a, bridges.b].map((it) => it.run('demo.echo', request)));
  (await heard('two')).answer();
  for (const { outcome } of runs) t.is((await within('the outcome', outcome)).status, 'succeeded');
  t.is(new Set(runs.map(({ id }) => id)).size, 1);
  await heard('two');
});

test.serial('a cancel request at another member ends the run', async (t) => {
  const run = await bridges.a.run('demo.echo', { target: ['web1'], params: { text: 'three' } });
  const call = await heard('three');
  const found = await bridges.b.find(run.id, 'local');
  await within('the end', found.cancel());
  t.is((await run.outcome).status, 'cancelled');
  t.is((await found.outcome).status, 'cancelled');
  call.answer();
});

test.serial('a follower at another member receives results as they arrive', async (t) => {
  const groups = { all: ['web1'] };
  const plan = await bridges.a.plan('demo.twice', { groups, params: { text: 'live' } });
  const first = await heard('live');
  const told = (await bridges.c.plans.find(plan.id, 'local')).updates();
  const updates = told[Symbol.asyncIterator]();
  const next = async (type: string): Promise<PlanUpdate> => {
    for (;;) {
      const { value, done } = await within(`an update: ${type}`, updates.next());
      if (done === true) throw new Error('it told no more');
      if (value.type === type) return value;
    }
  };
  t.like(await next('step'), { state: 'running' });
  first.answer();
  t.like(await next('result'), { result: { minion: 'web1', return: 'live' } });
  (await heard('live', 2)).answer();
  t.like(await next('result'), { result: { minion: 'web1', return: 'live' } });
  t.like(await next('outcome'), { outcome: { status: 'succeeded' } });
});

/** Returns the number of deployments of the stack that have ended. */
async function ended({ stacks }: Bridge): Promise<number> {
  const { deployments }: StackDetails = await stacks.show('site');
  return deployments.filter(({ state }) => state === 'done').length;
}

test.serial('the member with the lease follows a stack of another member, for all', async (t) => {
  heat.servers.set('server-1', [heat.entry('d1', { config: 'demo.echo' }, { text: 'd1' })]);
  const registration = {
    name: 'site',
    servers: [{ server: 'server-1', minion: 'web1' }],
    login: { auth_url: `${heat.origin}/v3`, user_id: 'u', password: 'secret', project_id: 'p' },
  };
  const added = await Promise.allSettled(
    [bridges.b, bridges.c, bridges.b].map(({ stacks }) => stacks.add(registration)),
  );
  t.deepEqual(
    added.flatMap((it) => (it.status === 'rejected' ? it.reason.code : [])),
    ['ERR_STACK_EXISTS', 'ERR_STACK_EXISTS'],
  );
  // The minion is not connected to the member that runs the command.
  (await heard('d1')).answer();
  await eventually('the end', async () => (await ended(bridges.c)) === 1);
  t.is(heat.results.length, 1);
  const [first] = (await bridges.a.stacks.show('site')).followed;
  t.is(first?.minion, 'web1');
  t.deepEqual((await bridges.b.stacks.show('site')).followed, []);
  await t.throwsAsync(bridges.b.stacks.remove('another'), { code: 'ERR_STACK_UNKNOWN' });
});

/** Serves the HTTP API of a member through a connection that the test can close. */
async function serve(
  t: ExecutionContext,
  { master }: ClusterMaster,
  { http }: Bridge,
): Promise<TcpProxy> {
  const api = await createSaltApi(master, { host: '127.0.0.1', plugins: [http] });
  t.teardown(() => api.close());
  const line = await TcpProxy.start((await api.listen()).port);
  t.teardown(() => line.close());
  return line;
}

test.serial('a client of the bridge continues at the next member, with its rights', async (t) => {
  const first = await serve(t, a, bridges.a);
  const second = await serve(t, b, bridges.b);
  const clientOf = async (username: string): Promise<ExtensionClient> => {
    const credentials = { username, password: 'secret', eauth: 'sharedsecret' };
    const { token } = await b.master.logins.login(credentials);
    const urls = [first, second].map(({ port }) => `http://127.0.0.1:${port}`);
    return connectExtension({ urls, token }, 'bridge');
  };
  const [ann, bob] = [await clientOf('ann'), await clientOf('bob')];
  const request = { command: 'demo.echo', tgt: 'web1', params: { text: 'http' } };
  const running = collect(bob.stream<RunStarted | CommandUpdate>('run', request));
  const call = await heard('http');
  const listed = await bridges.b.stacks.list();
  t.deepEqual(await ann.call<typeof listed>('stacks.list'), listed);
  await t.throwsAsync(bob.call('stacks.list'), { code: 'ERR_DENIED' });
  // The service has the right on that member.
  await a.master.keys.create({ id: 'web2', force: true });
  for (const more of [{}, { service: 'bridge' }]) {
    const refused = collect(bob.stream('run', { ...request, tgt: 'web2', ...more }));
    const expected = { code: 'ERR_COMMAND_DENIED' };
    await t.throwsAsync(within('a refusal', refused), expected);
  }
  first.close();
  call.answer();
  const updates = await within('the run', running);
  t.like(updates[0], { type: 'begun', isRepeated: false });
  const results = [{ minion: 'web1', return: 'http' }];
  t.like(updates.at(-1), { type: 'outcome', outcome: { status: 'succeeded', results } });
  // If the run ended before it was found again, the stream contains only the outcome.
  t.true(updates.filter(({ type }) => type === 'result').length <= 1);
  t.deepEqual(await ann.call<typeof listed>('stacks.list'), listed);
  await heard('http');
});

test.serial(
  'runs with and without a key continue at another member if their member leaves',
  async (t) => {
    const plan = await bridges.a.plan('demo.twice', {
      groups: { all: ['web1'] },
      params: { text: 'p' },
    });
    const command = await bridges.a.run('demo.echo', { target: ['web1'], params: { text: 'c' } });
    heat.servers.set('server-1', [heat.entry('d2', { config: 'demo.echo' }, { text: 'd2' })]);
    const [step, other, deployed] = [await heard('p'), await heard('c'), await heard('d2')];
    const found = await bridges.b.plans.find(plan.id, 'local');
    const run = await bridges.b.find(command.id, 'local');
    const elsewhere = await bridges.c.plans.find(plan.id, 'local');
    const [told, toldElsewhere] = [collect(found.updates()), collect(elsewhere.updates())];
    await a.master.close();
    t.is((await plan.outcome).status, 'interrupted');
    for (const { answer } of [step, other, deployed]) answer();
    (await heard('p', 2)).answer();
    t.is((await within('the plan', found.outcome)).status, 'succeeded');
    t.is((await within('the command', run.outcome)).status, 'succeeded');
    await heard('p', 2);
    await heard('c');
    for (const updates of [await told, await toldElsewhere]) {
      const results = updates.flatMap((it) => (it.type === 'result' ? it.step : []));
      t.deepEqual(results, ['one', 'two']);
      t.is(updates.at(-1)?.type, 'outcome');
    }
    await eventually('the deployment', async () => (await ended(bridges.b)) === 2);
    await heard('d2');
    t.is(heat.results.length, 2);
    await bridges.c.stacks.remove('site');
    await t.throwsAsync(bridges.c.stacks.show('site'), { code: 'ERR_STACK_UNKNOWN' });
  },
);

async function openRuns(
  t: ExecutionContext,
  { area: state }: TestMember,
  resume: () => Promise<void> = async () => {},
): Promise<ClusterRuns<object>> {
  const log = createSilentLogger();
  const row = defineRow({ name: 'call', schema: Type.Object({}) });
  const find = (): undefined => undefined;
  const runs = await ClusterRuns.open({ state, kind: 'test', row, resume, find, log });
  if (runs === undefined) throw new Error('no cluster');
  t.teardown(() => runs.close());
  return runs;
}

test('a run ends if its deadline passes after its member is gone', async (t) => {
  let later = 0;
  const masters = new ClusterMasters(
    temporaryDirectory(t),
    { keysize: 2048, autoAccept: true, acl: acl([grant]) },
    (options) => createMaster({ ...options, now: () => Date.now() + later }),
  );
  const own = newBridge();
  const first = await masters.first('x', [own]);
  const others = [];
  for (const name of ['y', 'z']) others.push(await masters.join(name, first, [newBridge()]));
  const [next = first] = others;
  let isAsked = false;
  await next.connect(t, 'web1', {
    'test.echo': () => {
      isAsked = true;
      return new Promise(() => {});
    },
  });
  const deadline = Date.now() + 120_000;
  const request = { target: ['web1'], params: { text: 'late' }, deadline };
  const run = await own.run('demo.echo', { ...request, idempotencyKey: 'late' });
  await until('the minion to be asked', () => isAsked);
  // No other member may continue it before.
  for (const { master } of others) await master.cluster.drain();
  await first.master.close();
  t.is((await run.outcome).status, 'interrupted');
  const rows = async (): Promise<number> => {
    const place = temporaryDirectory(t);
    const [file, directory] = [path.join(place, 'backup'), path.join(place, 'store')];
    await next.master.store.backup(file);
    await restoreStore({ file, directory });
    const counted = await readStore(directory, async (store) => {
      let count = 0;
      for await (const _row of store.list(['state', 'bridge', 'runs'])) count += 1;
      return count;
    });
    return counted ?? 0;
  };
  t.is(await rows(), 1);
  later = 120_000;
  await next.master.cluster.resume();
  await eventually('the end of the run', async () => (await rows()) === 0);
  for (const { master } of others.reverse()) await master.close();
});

test('a run that cannot continue at another member is removed', async (t) => {
  const [one, two] = await twoMembers(t);
  let resumed = 0;
  const first = await openRuns(t, one);
  const second = await openRuns(t, two, async () => {
    resumed += 1;
    throw new Error('no such command');
  });
  await two.begin();
  second.rows.start();
  await one.area.write(first.take('1', {}));
  await two.applied();
  const over = second.over('1');
  await first.close();
  await within('the end of the run', over);
  t.is(resumed, 1);
  t.deepEqual(second.rows.endLeft('1'), []);
});

test('a run belongs to one member, and other members write nothing of it', async (t) => {
  const members = await twoMembers(t);
  const [one, two] = members;
  const [first, second] = [await openRuns(t, one), await openRuns(t, two)];
  const { lost } = first.rows.hold('1');
  const taken = await Promise.allSettled([
    one.area.write(first.take('1', {})),
    two.area.write(second.take('1', {})),
  ]);
  t.is(taken.filter(({ status }) => status === 'fulfilled').length, 1);
  // A second member takes over a run while the first one is still working on it.
  await two.area.write(second.take('1', {}));
  await one.applied();
  t.deepEqual([first.rows.isElsewhere('1'), second.rows.isElsewhere('1')], [true, false]);
  await t.throwsAsync(one.area.write(first.rows.condition('1')), { code: 'ERR_REVISION' });
  await t.throwsAsync(one.area.write(first.rows.end('1')), { code: 'ERR_REVISION' });
  const over = first.over('1');
  await two.area.write(second.rows.end('1'));
  await within('the end of the run', over);
  t.is(lost.aborted, taken[0].status === 'fulfilled');
});
