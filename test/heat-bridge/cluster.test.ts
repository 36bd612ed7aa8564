/** Runs of the bridge go on at another member of the cluster. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'ava';
import { ClusterRuns } from '../../heat-bridge/commands/cluster-runs.ts';
import { createBridge } from '../../heat-bridge/index.ts';
import { createSilentLogger } from '../../master/index.ts';
import type { MinionFunction } from '../../minion-protocol/index.ts';
import { type ClusterMaster, ClusterMasters } from '../helpers/cluster-masters.ts';
import { until, within } from '../helpers/deadline.ts';
import { twoMembers } from './cluster.ts';
import { acl, echo, grant, twice } from './stage.ts';

const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-cluster-runs-'));
const masters = new ClusterMasters(directory, { keysize: 2048, acl: acl([grant]) });
const newBridge = () => createBridge({ commands: [echo], plans: [twice] });
let a: ClusterMaster;
let b: ClusterMaster;
/** Keeps what b writes once a is gone. */
let c: ClusterMaster;
const bridges = { a: newBridge(), b: newBridge(), c: newBridge() };
/** What the minion, which is connected to b, was asked; it answers when the test says so. */
const asked: { text: string; answer: () => void }[] = [];
/** Resolves when the minion was asked so often to say a text; the last time. */
async function heard(text: string, times = 1): Promise<{ answer: () => void }> {
  const calls = (): typeof asked => asked.filter((it) => it.text === text);
  await until('the minion to be asked', () => calls().length === times);
  return calls().at(-1) ?? { answer: () => {} };
}

let disconnect: () => unknown = () => {};

test.before(async () => {
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

test.serial('a run of one member is found at another, by its key and its id', async (t) => {
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

test.serial('one key at two members at once is one run', async (t) => {
  const request = { target: ['web1'], params: { text: 'two' }, idempotencyKey: 'other' };
  const runs = await Promise.all([bridges.a, bridges.b].map((it) => it.run('demo.echo', request)));
  (await heard('two')).answer();
  for (const { outcome } of runs) t.is((await within('the outcome', outcome)).status, 'succeeded');
  t.is(new Set(runs.map(({ id }) => id)).size, 1);
  await heard('two');
});

test.serial('who cancels a run at another member ends it', async (t) => {
  const run = await bridges.a.run('demo.echo', { target: ['web1'], params: { text: 'three' } });
  const call = await heard('three');
  const found = await bridges.b.find(run.id, 'local');
  await within('the end', found.cancel());
  t.is((await run.outcome).status, 'cancelled');
  t.is((await found.outcome).status, 'cancelled');
  call.answer();
});

test.serial(
  'runs go on at another member when theirs leaves, with a key and without',
  async (t) => {
    const plan = await bridges.a.plan('demo.twice', {
      groups: { all: ['web1'] },
      params: { text: 'p' },
    });
    const command = await bridges.a.run('demo.echo', { target: ['web1'], params: { text: 'c' } });
    const [step, other] = [await heard('p'), await heard('c')];
    const found = await bridges.b.plans.find(plan.id, 'local');
    const run = await bridges.b.find(command.id, 'local');
    await a.master.close();
    t.is((await plan.outcome).status, 'interrupted');
    for (const { answer } of [step, other]) answer();
    (await heard('p', 2)).answer();
    t.is((await within('the plan', found.outcome)).status, 'succeeded');
    t.is((await within('the command', run.outcome)).status, 'succeeded');
    await heard('p', 2);
    await heard('c');
  },
);

test('a run is of one member, and another one writes nothing of it', async (t) => {
  const members = await twoMembers(t);
  const lost: string[] = [];
  const runs = await Promise.all(
    members.map(async ({ area }) => {
      const log = createSilentLogger();
      const [onLost, onCancelled] = [(id: string) => void lost.push(id), () => {}];
      const options = {
        state: area,
        kind: 'test',
        resume: async () => {},
        onLost,
        onCancelled,
        log,
      };
      const opened = await ClusterRuns.open(options);
      t.teardown(() => opened?.close());
      return opened;
    }),
  );
  const [first, second] = runs;
  const [one, two] = members;
  if (first === undefined || second === undefined) return t.fail();
  const taken = await Promise.allSettled([
    one.area.write(first.take('1', {})),
    two.area.write(second.take('1', {})),
  ]);
  t.is(taken.filter(({ status }) => status === 'fulfilled').length, 1);
  // As a member that takes over what the other one still works on.
  await two.area.write(second.take('1', {}));
  await one.applied();
  t.deepEqual([first.isElsewhere('1'), second.isElsewhere('1')], [true, false]);
  await t.throwsAsync(one.area.write(first.condition('1')), { code: 'ERR_REVISION' });
  await t.throwsAsync(one.area.write(first.end('1')), { code: 'ERR_REVISION' });
  const over = first.over('1');
  await two.area.write(second.end('1'));
  await within('the end of the run', over);
  t.true(lost.length <= 1);
});
