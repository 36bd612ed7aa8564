/** What follows from events: what is taken from them, how often, and what a reaction may do. */
import test from 'ava';
import { allow } from '../../../acl/index.ts';
import { reaction, resolveMasterConfig } from '../../../master/index.ts';
import { within } from '../../helpers/deadline.ts';
import { directories } from '../../helpers/vector-master.ts';
import { keys } from '../../helpers/vectors.ts';
import { acl, grant, puppet, startStage, startWeb, tag } from './stage.ts';

test('a permitted signal leads to a job with its data, and the run is told', async (t) => {
  const stage = await startStage(t, {});
  const { calls } = await startWeb(t, stage);
  await stage.emit({ env: 'live=1 & more' });
  const [run] = await stage.ended(1);
  t.deepEqual(calls, [{ env: 'live=1 & more' }]);
  t.like(run, { reaction: 'puppet', state: 'succeeded', tag, sender: keys.minionId });
  const job = await stage.master.jobs.show(run?.jid ?? '');
  t.like(job, { user: 'reaction:puppet', tgt: ['web1'], tgtType: 'list' });
});

test('a signal that no rule permits leads to nothing', async (t) => {
  const stage = await startStage(t, { acl: { signals: [], rules: [grant] }, reactions: [bare()] });
  await stage.emit({ env: 'live' });
  t.deepEqual(await stage.master.reactions.runs(), []);
});

test('without a rule of its own a reaction is denied, and that is told once a burst', async (t) => {
  const stage = await startStage(t, { acl: acl() });
  const { calls } = await startWeb(t, stage);
  const end = new AbortController();
  const told = stage.master.events.subscribe({ match: 'saltbridge/reaction/*' }, end.signal);
  await stage.emit({ env: 'live' });
  await stage.emit({ env: 'test' });
  const runs = await stage.ended(2);
  t.deepEqual(
    runs.map(({ state }) => state),
    ['denied', 'denied'],
  );
  t.deepEqual(calls, []);
  t.is((await stage.counters())['reaction-denied'], 2);
  end.abort();
  const tags: string[] = [];
  for await (const event of told) tags.push(event.tag);
  t.deepEqual(tags, ['saltbridge/reaction/denied']);
});

test('the rule of one reaction permits nothing to another', async (t) => {
  const other = { ...puppet, name: 'other' };
  const stage = await startStage(t, { reactions: [other] });
  await startWeb(t, stage);
  await stage.emit({ env: 'live' });
  t.is((await stage.ended(1))[0]?.state, 'denied');
});

test('a job goes no further than the minions of its rule', async (t) => {
  const wide = reaction('puppet', {
    on: tag,
    do: { run: { fun: 'test.kwarg', target: '*', kwargs: { env: { from: 'data.env' } } } },
  });
  const stage = await startStage(t, { reactions: [wide] });
  await startWeb(t, stage);
  await stage.emit({ env: 'live' });
  const [run] = await stage.ended(1);
  t.is(run?.state, 'succeeded');
  const { tgt } = await stage.master.jobs.show(run?.jid ?? '');
  t.deepEqual(tgt, ['web1']);
});

test('text that begins with a dash is taken only where that is said', async (t) => {
  const stage = await startStage(t, {});
  await stage.emit({ env: '--noop' });
  t.deepEqual(await stage.master.reactions.runs(), []);
  t.is((await stage.counters())['reaction-dash'], 1);
  const open = reaction('puppet', {
    on: tag,
    do: {
      run: { fun: 'test.kwarg', target: 'web*', kwargs: { env: { from: 'data.env', dash: true } } },
    },
  });
  const other = await startStage(t, { reactions: [open] });
  const { calls } = await startWeb(t, other);
  await other.emit({ env: '--noop' });
  await other.ended(1);
  t.deepEqual(calls, [{ env: '--noop' }]);
});

test('data that another rule let in without a schema is not taken', async (t) => {
  const loose = allow('loose', {
    subject: { minion: keys.minionId },
    action: 'signal',
    resource: { tag: 'infra/*' },
  });
  const [strict] = acl().signals ?? [];
  const config = {
    acl: {
      signals: strict === undefined ? [] : [{ ...strict, minions: 'jenkins' }],
      rules: [loose, grant],
    },
  };
  const stage = await startStage(t, config);
  await stage.emit({ env: 'live' });
  t.deepEqual(await stage.master.reactions.runs(), []);
  t.is((await stage.counters())['reaction-no-schema'], 1);
});

test('only the minions that are selected lead to something', async (t) => {
  const from = (selector: string) => ({ ...puppet, from: selector });
  const stage = await startStage(t, { reactions: [from('jenkins-*')] });
  await stage.emit({ env: 'live' });
  t.deepEqual(await stage.master.reactions.runs(), []);
  const other = await startStage(t, { reactions: [from(keys.minionId)] });
  await startWeb(t, other);
  await other.emit({ env: 'live' });
  t.is((await other.ended(1))[0]?.state, 'succeeded');
});

test('a value of an event is a whole id in a list, not an expression', async (t) => {
  const on = {
    on: tag,
    do: { run: { fun: 'test.kwarg', target: { list: [{ from: 'data.env' }] } } },
  };
  const stage = await startStage(t, { reactions: [reaction('puppet', on)] });
  const { calls } = await startWeb(t, stage);
  for (const env of ['*', 'web1,web2', 'web[12]', 'E@web.', 'web1']) await stage.emit({ env });
  const states = (await stage.ended(5)).map(({ state }) => state);
  t.deepEqual(states.sort(), ['nobody', 'nobody', 'nobody', 'nobody', 'succeeded']);
  t.is(calls.length, 1);
});

test('the sender of an event may be whom a job is for', async (t) => {
  const back = reaction('puppet', {
    on: 'salt/minion/*/start',
    do: { run: { fun: 'test.kwarg', target: { minion: 'sender' } } },
  });
  const stage = await startStage(t, { reactions: [back] });
  const { calls } = await startWeb(t, stage);
  t.is((await stage.ended(1))[0]?.state, 'succeeded');
  t.is(calls.length, 1);
});

test('in its window of time, an event of the same values counts once', async (t) => {
  // Those that do not count use up nothing of the rate.
  const once = { ...puppet, oncePer: 60, onceBy: ['data.env'], rate: '3/hour' };
  const stage = await startStage(t, { reactions: [once] });
  const { calls } = await startWeb(t, stage);
  for (const env of ['live', 'live', 'test', 'live']) await stage.emit({ env });
  await stage.ended(2);
  stage.clock.now += 61_000;
  await stage.emit({ env: 'live' });
  await stage.ended(3);
  t.deepEqual(calls, [{ env: 'live' }, { env: 'test' }, { env: 'live' }]);
  t.is((await stage.counters())['reaction-once'], 2);
});

test('beyond its rate, a reaction drops events and counts them', async (t) => {
  const stage = await startStage(t, { reactions: [{ ...puppet, rate: '2/hour' }] });
  await startWeb(t, stage);
  for (const env of ['a', 'b', 'c']) await stage.emit({ env });
  await stage.ended(2);
  t.is((await stage.master.reactions.runs()).length, 2);
  t.is((await stage.counters())['reaction-rate'], 1);
});

test('one run at a time, a bounded queue behind it, and the rest is dropped', async (t) => {
  const stage = await startStage(t, { reactions: [{ ...puppet, queue: 2 }] });
  let most = 0;
  let now = 0;
  const opened: (() => void)[] = [];
  const { calls } = await startWeb(t, stage, {
    'test.kwarg': async ({ kwargs }) => {
      now += 1;
      most = Math.max(most, now);
      calls.push({ ...kwargs });
      await new Promise<void>((resolve) => opened.push(resolve));
      now -= 1;
      return true;
    },
  });
  for (const env of ['a', 'b', 'c', 'd', 'e']) await stage.emit({ env });
  t.is((await stage.counters())['reaction-queue'], 2);
  for (let done = 1; done <= 3; done += 1) {
    await within('a run to begin', opens(opened));
    opened.shift()?.();
    await stage.ended(done);
  }
  t.deepEqual(
    calls.map(({ env }) => env),
    ['a', 'b', 'c'],
  );
  t.is(most, 1);
});

test('a run that takes too long is given up, and the next one begins', async (t) => {
  const stage = await startStage(t, { reactions: [{ ...puppet, timeout: 1 }] });
  let first = true;
  await startWeb(t, stage, {
    'test.kwarg': async (_call, { signal }) => {
      if (!first) return true;
      first = false;
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      return false;
    },
  });
  await stage.emit({ env: 'a' });
  await stage.emit({ env: 'b' });
  const states = (await stage.ended(2)).map(({ state }) => state);
  t.deepEqual(states, ['succeeded', 'timeout']);
});

test('a reaction to its own job ends after a few rounds', async (t) => {
  const loop = reaction('puppet', {
    on: 'salt/job/*/ret/web1',
    do: { run: { fun: 'test.kwarg', target: 'web1' } },
  });
  const stage = await startStage(t, { reactions: [loop] });
  const { calls } = await startWeb(t, stage);
  await stage.master.jobs.publish({ tgt: 'web1', fun: 'test.ping' });
  await stage.ended(4);
  await stage.emit({ env: 'a' });
  t.is(calls.length, 4);
  t.is((await stage.counters())['reaction-depth'], 1);
});

test('a runner runs by the right of its reaction alone', async (t) => {
  const look = reaction('look', { on: tag, do: { runner: { fun: 'manage.present' } } });
  const right = allow('looks', {
    subject: { service: 'reaction:look' },
    action: 'runner',
    resource: { fun: 'manage.present' },
  });
  for (const [rules, state] of [
    [[right], 'succeeded'],
    [[grant], 'denied'],
  ] as const) {
    const stage = await startStage(t, { acl: acl(...rules), reactions: [look] });
    await stage.emit({ env: 'a' });
    t.is((await stage.ended(1))[0]?.state, state);
  }
});

test('a function that the master does not have is told', async (t) => {
  const look = reaction('puppet', { on: tag, do: { runner: { fun: 'none.such' } } });
  const right = allow('all', {
    subject: { service: 'reaction:*' },
    action: 'runner',
    resource: { fun: '*' },
  });
  const stage = await startStage(t, { acl: acl(right), reactions: [look] });
  await stage.emit({ env: 'a' });
  t.is((await stage.ended(1))[0]?.state, 'unusable');
});

function bare(): typeof puppet {
  return reaction('puppet', { on: tag, do: { run: { fun: 'test.kwarg', target: 'web*' } } });
}

async function opens(waiting: readonly unknown[]): Promise<void> {
  while (waiting.length === 0) await new Promise((resolve) => setImmediate(resolve));
}

test('a reload puts other reactions in force, all or none', async (t) => {
  const stage = await startStage(t, { reactions: [] });
  const { calls } = await startWeb(t, stage);
  await stage.emit({ env: 'a' });
  const base = { ...directories(stage.directory), requestServerTtl: 0, acl: acl(grant) };
  const { applied } = await stage.master.reload(
    resolveMasterConfig({ ...base, reactions: [puppet] }),
  );
  t.deepEqual(applied, ['saltbridge:reactions']);
  await stage.emit({ env: 'b' });
  await stage.ended(1);
  t.deepEqual(calls, [{ env: 'b' }]);
  t.is((await stage.master.reactions.show('puppet')).on, tag);
  await t.throwsAsync(stage.master.reactions.show('other'), { code: 'ERR_REACTION_UNKNOWN' });
});
