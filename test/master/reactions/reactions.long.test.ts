/** Reactions to events: the values they use, their rate, and their rights. */

import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { allow, type PolicyRule } from '#acl';
import { compileDataSchema } from '#acl/data-schema.ts';
import { policySyntax, reaction, resolveMasterConfig, storeDirectory } from '#config';
import { requiredTypes } from '#config/reaction-guarantees.ts';
import {
  backupOfflineStore,
  createSilentLogger,
  openRunsPrefix,
  restoreMasterStore,
} from '#master';
import type { MasterTransport } from '#minion-protocol';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import { openRunRow, ReactionQueue } from '#salt/reactor/reaction-queue.ts';
import { createMemoryStore, openEmbeddedStore, type Store, StoreError } from '#store';
import { until, waitMs, within } from '../../helpers/deadline.ts';
import { tries } from '../../helpers/effort.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories, RECORDED_AT } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { keys } from '../../helpers/vectors.ts';
import { acl, grant, puppet, type Stage, startStage, startWeb, tag } from './stage.ts';

test('a permitted signal starts a job with its data, and the run is reported', async (t) => {
  const stage = await startStage(t, {});
  const { calls } = await startWeb(t, stage);
  await stage.emit({ env: 'live=1 & more' });
  const [run] = await stage.ended(1);
  t.deepEqual(calls, [{ env: 'live=1 & more' }]);
  t.like(run, { reaction: 'puppet', state: 'succeeded', tag, sender: keys.minionId });
  const job = await stage.master.jobs.show(run?.jid ?? '');
  t.like(job, { user: 'reaction:puppet', tgt: ['web1'], tgtType: 'list' });
});

test('a signal that no rule permits starts no job', async (t) => {
  const stage = await startStage(t, { acl: { signals: [], rules: [grant] }, reactions: [bare()] });
  await stage.emit({ env: 'live' });
  t.deepEqual(await stage.master.reactions.runs(), []);
});

test('without its own rule a reaction is denied, and that is reported once per burst', async (t) => {
  const stage = await startStage(t, { acl: acl() });
  const { calls } = await startWeb(t, stage);
  const end = new AbortController();
  const told = await stage.master.events.subscribe({ match: 'saltbridge/reaction/*' }, end.signal);
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

test('the rule of one reaction does not apply to another', async (t) => {
  const other = { ...puppet, name: 'other' };
  const stage = await startStage(t, { reactions: [other] });
  await startWeb(t, stage);
  await stage.emit({ env: 'live' });
  t.is((await stage.ended(1))[0]?.state, 'denied');
});

test('a job reaches only the minions of its rule', async (t) => {
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

test('text that begins with a dash is accepted only if configured', async (t) => {
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

test('a value of an event that Salt would interpret starts no job', async (t) => {
  const stage = await startStage(t, {});
  await stage.emit({ env: '__slot__:salt:cmd.run(id)' });
  t.deepEqual(await stage.master.reactions.runs(), []);
  t.is((await stage.counters())['reaction-interpreted'], 1);
});

test('data that a rule without a schema permitted is not used', async (t) => {
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

test('only the selected minions start a run', async (t) => {
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

test('a name without a key in the list of a reaction fails its run, and is reported', async (t) => {
  const on = { on: tag, do: { run: { fun: 'test.kwarg', target: { list: ['web1', 'gone'] } } } };
  const stage = await startStage(t, { reactions: [reaction('puppet', on)] });
  const { calls } = await startWeb(t, stage);
  await stage.emit({ env: 'live' });
  const [run] = await stage.ended(1);
  t.is(run?.state, 'failed');
  t.regex(run?.reason ?? '', /0 of 2 minions failed, 1 did not respond; not addressed: gone/);
  t.is(calls.length, 1);
});

test('the sender of an event may be the target of a job', async (t) => {
  const back = reaction('puppet', {
    on: 'salt/minion/*/start',
    do: { run: { fun: 'test.kwarg', target: { minion: 'sender' } } },
  });
  const stage = await startStage(t, { reactions: [back] });
  const { calls } = await startWeb(t, stage);
  t.is((await stage.ended(1))[0]?.state, 'succeeded');
  t.is(calls.length, 1);
});

test('events with the same values within the window count once', async (t) => {
  // Events that match no reaction do not use up its rate.
  const once = { ...puppet, throttleSeconds: 60, throttleKey: ['data.env'], rate: '3/hour' };
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

test('a reaction over its rate drops events and counts them', async (t) => {
  const stage = await startStage(t, { reactions: [{ ...puppet, rate: '2/hour' }] });
  await startWeb(t, stage);
  for (const env of ['a', 'b', 'c']) await stage.emit({ env });
  await stage.ended(2);
  t.is((await stage.master.reactions.runs()).length, 2);
  t.is((await stage.counters())['reaction-rate'], 1);
});

test('one sender cannot use up the rate of a reaction', async (t) => {
  const stage = await startStage(t, { reactions: [{ ...puppet, rate: '8/hour' }] });
  const { minion } = await startWeb(t, stage);
  for (let count = 0; count < 9; count += 1) await stage.emit({ env: 'many' });
  t.is((await stage.counters())['reaction-rate'], 3);
  await minion.fire(tag, { env: 'one' });
  const runs = await stage.ended(7);
  t.is(runs.filter(({ sender }) => sender === 'web1').length, 1);
});

test('one sender cannot fill the queue of a reaction', async (t) => {
  const stage = await startStage(t, { reactions: [{ ...puppet, queue: 7 }] });
  const { minion } = await startWeb(t, stage, { 'test.kwarg': () => new Promise(() => {}) });
  for (let count = 0; count < 9; count += 1) await stage.emit({ env: 'many' });
  t.is((await stage.counters())['reaction-queue'], 3);
  await minion.fire(tag, { env: 'one' });
  const senders = (await stage.master.reactions.runs()).map(({ sender }) => sender);
  t.is(senders.filter((it) => it === 'web1').length, 1);
});

test('one run is active at a time, some are queued, and the rest is dropped', async (t) => {
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

test('a run that takes too long is ended, and the next one begins', async (t) => {
  const stage = await startStage(t, { reactions: [{ ...puppet, timeoutSeconds: 3 }] });
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

test('a reaction triggered by its own job ends after a few rounds', async (t) => {
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

test('a runner runs only with the rights of its reaction', async (t) => {
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

test('a reaction removes keys by manage.down only if it may delete them', async (t) => {
  const asked = { tgt: 'web1', timeout: 0.1, gather_job_timeout: 0.1 };
  const look = reaction('look', {
    on: tag,
    do: { runner: { fun: 'manage.down', kwargs: { ...asked, removekeys: true } } },
  });
  const subject = { service: 'reaction:look' };
  const right = (action: 'runner' | 'wheel', fun: string): PolicyRule =>
    allow(fun, { subject, action, resource: { fun } });
  const looks = right('runner', 'manage.down');
  for (const [rules, state] of [
    [[looks], 'failed'],
    [[looks, right('wheel', 'key.delete')], 'succeeded'],
  ] as const) {
    const stage = await startStage(t, { acl: acl(...rules), reactions: [look] });
    await stage.emit({ env: 'a' });
    t.is((await stage.ended(1))[0]?.state, state);
    const ids = (await stage.master.keys.list()).map(({ id }) => id);
    t.is(ids.includes('web1'), state === 'failed');
  }
});

test('a missing function of the master is reported', async (t) => {
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

test('a reload applies all new reactions or none', async (t) => {
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

// State after a crash: an acknowledged run is executed, and under only one jid.

const startEvent = recorded('minion_event', 'start event v3');

/**
 * An event that needs no rule. After it, the minion's protocol version is stored and nothing else.
 */
const own = 'minion_ping';

interface Disk {
  readonly store: Store;
  /** Number of writes that still succeed. */
  left: number;
}

/** Returns a store that rejects all writes after some, as if the process had ended. */
function fragileStore(memory: Store): Disk {
  const disk: Disk = {
    left: Number.POSITIVE_INFINITY,
    store: new Proxy(memory, {
      get(target, name) {
        if (name === 'write') {
          return async (operations: Parameters<Store['write']>[0]) => {
            // The audit log is written periodically, independently of the test.
            const isAudit = operations.every((it) => 'key' in it && it.key[0] === 'audit');
            if (!isAudit) disk.left -= 1;
            if (!isAudit && disk.left < 0) throw new StoreError('ERR_STORE_CLOSED', 'gone');
            return target.write(operations);
          };
        }
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    }),
  };
  return disk;
}

/** Sends a request. Returns whether it was acknowledged. */
async function isAcknowledged(stage: Stage, request: Uint8Array, nonce: string): Promise<boolean> {
  try {
    return openReply(startEvent, await stage.ask(request), nonce) === null;
  } catch {
    return false;
  }
}

async function sent({ master }: Stage): Promise<void> {
  while ((await master.reactions.runs())[0]?.state !== 'running') {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Returns the store and directory of a master that has stopped with a run in the queue. */
async function leaveWaiting(t: ExecutionContext): Promise<Pick<Stage, 'store' | 'directory'>> {
  const memory = createMemoryStore({ now: () => RECORDED_AT });
  const disk = fragileStore(memory);
  const { emit, master, directory, ...rest } = await startStage(t, {}, { store: disk.store });
  await startWeb(t, rest);
  await emit({}, own);
  disk.left = 1;
  await emit({ env: 'live' });
  await master.close();
  return { store: memory, directory };
}

for (let writes = 0; writes <= 5; writes += 1) {
  test(`after a master ends after ${writes} writes, the run is either done or left to the next one`, async (t) => {
    const memory = createMemoryStore({ now: () => RECORDED_AT });
    const disk = fragileStore(memory);
    const first = await startStage(t, {}, { store: disk.store });
    const jids: string[] = [];
    const functions = {
      'test.kwarg': (_call: unknown, { jid }: { readonly jid: string }) => {
        jids.push(jid);
        return true;
      },
    };
    await startWeb(t, first, functions);
    await first.emit({}, own);
    const nonce = freshNonce();
    const request = altered(startEvent, { load: { tag, data: { env: 'live' }, nonce } });
    disk.left = writes;
    const wasAcknowledged = await isAcknowledged(first, request, nonce);
    t.is(wasAcknowledged, writes > 0);
    // The run, the job and a serial are stored. Then the job is sent, which must not be prevented.
    if (writes >= 3) await until('the job to run', () => jids.length > 0);
    await first.master.close();

    const startAt = RECORDED_AT + 2000;
    const second = await startStage(t, {}, { store: memory, directory: first.directory, startAt });
    await startWeb(t, second, functions);
    t.true(await isAcknowledged(second, request, nonce), 'sent again');
    const [run] = await second.ended(1);
    t.is((await second.master.reactions.runs()).length, 1);
    await until('the job to run', () => jids.length > 0);
    t.deepEqual([...new Set(jids)], [run?.jid]);
  });
}

test('a repeated request causes no second run, even at the next master', async (t) => {
  const store = createMemoryStore({ now: () => RECORDED_AT });
  const first = await startStage(t, {}, { store });
  const { calls } = await startWeb(t, first);
  const nonce = freshNonce();
  const request = altered(startEvent, { load: { tag, data: { env: 'live' }, nonce } });
  for (let time = 0; time < 3; time += 1) t.true(await isAcknowledged(first, request, nonce));
  await first.ended(1);
  await first.master.close();
  const startAt = RECORDED_AT + 2000;
  const second = await startStage(t, {}, { store, directory: first.directory, startAt });
  t.true(await isAcknowledged(second, request, nonce));
  t.is((await second.master.reactions.runs()).length, 1);
  t.is((await second.counters())['reaction-repeated'], 1);
  t.is(calls.length, 1);
});

test('a dropped event causes no run when it is repeated', async (t) => {
  const store = createMemoryStore({ now: () => RECORDED_AT });
  const once = { ...puppet, throttleSeconds: 60 };
  const first = await startStage(t, { reactions: [once] }, { store });
  await startWeb(t, first);
  await first.emit({ env: 'live' });
  const nonce = freshNonce();
  const request = altered(startEvent, { load: { tag, data: { env: 'live' }, nonce } });
  t.true(await isAcknowledged(first, request, nonce));
  await first.ended(1);
  await first.master.close();
  const config = { reactions: [puppet] };
  const second = await startStage(t, config, { store, directory: first.directory });
  t.true(await isAcknowledged(second, request, nonce));
  t.is((await second.master.reactions.runs()).length, 1);
});

test('a waiting run is executed by the next master, which checks its right again', async (t) => {
  for (const [rules, state] of [
    [[grant], 'succeeded'],
    [[], 'denied'],
  ] as const) {
    const left = await leaveWaiting(t);
    const config = { acl: acl(...rules) };
    const second = await startStage(t, config, { ...left, startAt: RECORDED_AT + 2000 });
    await startWeb(t, second);
    t.is((await second.ended(1))[0]?.state, state);
  }
});

test('a run of a removed reaction is not executed', async (t) => {
  const left = await leaveWaiting(t);
  const second = await startStage(t, { reactions: [] }, left);
  const { calls } = await startWeb(t, second);
  t.is((await second.ended(1))[0]?.state, 'removed');
  t.deepEqual(calls, []);
});

test('a sent job is not published again, even if its minions do not know it', async (t) => {
  const store = createMemoryStore({ now: () => RECORDED_AT });
  const first = await startStage(t, {}, { store });
  let began: () => void = () => {};
  const beginning = new Promise<void>((resolve) => {
    began = resolve;
  });
  await startWeb(t, first, {
    'test.kwarg': async (_call, { signal }) => {
      began();
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      return true;
    },
  });
  await first.emit({ env: 'live' });
  await within('the job to begin', beginning);
  await within('the job to be known as sent', sent(first));
  await first.master.close();
  const second = await startStage(t, {}, { store, directory: first.directory });
  const { calls, minion } = await startWeb(t, second);
  t.is((await second.ended(1))[0]?.state, 'interrupted');
  t.is(minion.state.state, 'connected');
  const jobs = await second.master.jobs.list();
  await second.emit({ env: 'test' });
  await second.ended(2);
  t.deepEqual(calls, [{ env: 'test' }]);
  t.is(jobs.length, 1);
});

test('work begun during the start is not mistaken for that of another master', async (t) => {
  const store = createMemoryStore({ now: () => RECORDED_AT });
  const first = createMemoryTransport();
  const late = createMemoryTransport();
  const request = altered(startEvent, {
    load: { tag, data: { env: 'live' }, nonce: freshNonce() },
  });
  const listen: MasterTransport['listen'] = async (...handlers) => {
    await first.dial('peer', '192.0.2.9').request(request, waitMs);
    await within('the job to have left', sentIn(store));
    return late.master.listen(...handlers);
  };
  const second = new Proxy(late.master, {
    get: (target, name) => {
      const value: unknown = name === 'listen' ? listen : Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const stage = await startStage(t, {}, { store, transports: [first.master, second] });
  const [run, ...more] = await stage.master.reactions.runs();
  t.deepEqual(more, []);
  t.is(run?.state, 'running');
});

async function sentIn(store: Store): Promise<void> {
  for (;;) {
    for await (const entry of store.list(openRunsPrefix)) {
      if (openRunRow.decode(entry).isSent) return;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const run = {
  jid: '20240102030405123456',
  reaction: 'puppet',
  tag: 'a/b',
  depth: 0,
  queuedAt: 0,
  call: { kind: 'runner', fun: 'manage.present', arg: [], kwarg: {} },
  isSent: false,
} as const;

test('a restored backup does not execute runs that waited when it was made', async (t) => {
  const directory = temporaryDirectory(t);
  const config = resolveMasterConfig(directories(directory));
  const place = { directory: storeDirectory(config.stateDir) };
  const before = await openEmbeddedStore(place);
  const queue = await ReactionQueue.open({
    store: before,
    cluster: undefined,
    log: createSilentLogger(),
    keepMs: 1,
    keepMarksMs: 1,
    now: Date.now,
  });
  await queue.add(run, { mark: undefined, window: undefined });
  await before.close();
  const { file } = await backupOfflineStore(config, path.join(directory, 'backup'));
  await restoreMasterStore(config, file);
  const after = await openEmbeddedStore(place);
  t.teardown(() => after.close());
  const left: unknown[] = [];
  for await (const entry of after.list(openRunsPrefix)) left.push(entry.key);
  t.deepEqual(left, []);
});

test('the runs of a reaction and of a sender are counted without reading them', async (t) => {
  const store = createMemoryStore();
  t.teardown(() => store.close());
  const options = { keepMs: 1, keepMarksMs: 1, now: Date.now };
  const log = createSilentLogger();
  const queue = await ReactionQueue.open({ store, cluster: undefined, log, ...options });
  let reads = 0;
  for (let number = 0; number < 100; number += 1) {
    const counted = {
      ...{ ...run, jid: `${number}`, sender: number < 30 ? 'web1' : 'web2' },
      get reaction() {
        reads += 1;
        return number < 90 ? 'a' : 'b';
      },
    };
    await queue.add(counted, { mark: undefined, window: undefined });
  }
  for (const jid of ['0', '1', '99']) await queue.end(jid, 'succeeded');
  await queue.markSent('2');
  queue.leave('3');
  reads = 0;
  t.deepEqual(queue.count('a', 'web1'), { all: 87, own: 27 });
  t.deepEqual(queue.count('b', 'web2'), { all: 9, own: 9 });
  t.deepEqual(queue.count('b', undefined), { all: 9, own: 0 });
  t.is(reads, 0);
});

test('the runs of a site are counted for the site, also by the next process', async (t) => {
  const store = createMemoryStore();
  t.teardown(() => store.close());
  const options = { keepMs: 1, keepMarksMs: 1, now: Date.now };
  const common = { store, cluster: undefined, log: createSilentLogger(), ...options };
  const queue = await ReactionQueue.open(common);
  const none = { mark: undefined, window: undefined };
  await queue.add({ ...run, reaction: 'a', jid: '1', owner: 'site/north' }, none);
  await queue.add({ ...run, reaction: 'a', jid: '2' }, none);
  for (const each of [queue, await ReactionQueue.open(common)]) {
    t.deepEqual(each.count('a', 'site/north'), { all: 2, own: 1 });
    t.deepEqual(each.count('a', undefined), { all: 2, own: 1 });
    t.deepEqual(each.count('a', 'site/south'), { all: 2, own: 0 });
  }
});

const syntax = {
  ...policySyntax,
  target: () => ({ isEntitled: () => false, claims: () => false, mayMean: () => false }),
};

test('a value is guaranteed only if each step guarantees it', (t) => {
  const leaf = { type: ['string', 'null'] };
  for (const [schema, types] of [
    [{ type: 'object', required: ['a'], properties: { a: { type: 'integer' } } }, ['number']],
    [
      { type: 'object', required: ['a'], properties: { a: { enum: ['x', 1] } } },
      ['string', 'number'],
    ],
    [{ type: 'object', required: ['a'], properties: { a: { const: true } } }, ['boolean']],
    [{ required: ['a'], properties: { a: { type: 'string' } } }, undefined],
    [{ type: 'object', properties: { a: { type: 'string' } } }, undefined],
    [{ type: 'object', required: ['a'] }, undefined],
    [{ type: 'object', required: ['a'], properties: { a: leaf } }, undefined],
    [{ type: 'object', required: ['a'], properties: { a: { enum: [[]] } } }, undefined],
    [{ type: 'object', required: ['a'], properties: { a: {} } }, undefined],
    [true, undefined],
  ] as const) {
    const found = requiredTypes(schema, ['a']);
    t.deepEqual(found && [...found], types && [...types], JSON.stringify(schema));
  }
});

const plain = fc.constantFrom<unknown>('x', '', 1, true, null);
const types = fc.constantFrom('string', 'integer', 'boolean', 'null', 'object', 'array');
const leaf = fc.oneof(
  fc.record({ type: types }),
  fc.record({ enum: fc.array(plain, { minLength: 1, maxLength: 2 }) }),
);

/** Generates a step of a path. Most are valid, some are not. */
function step(inner: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.record({
    type: fc.oneof({ weight: 4, arbitrary: fc.constant('object') }, types),
    required: fc.oneof({ weight: 4, arbitrary: fc.constant(['a']) }, fc.constant(['b'])),
    properties: fc.oneof(
      { weight: 4, arbitrary: fc.record({ a: inner }) },
      fc.record({ b: inner }),
    ),
  });
}

const schemas = fc.oneof(leaf, step(leaf), step(step(leaf)));
const nestedIn = (inner: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 3, arbitrary: fc.record({ a: inner }) }, fc.record({ b: inner }), plain);
const value = fc.oneof(plain, nestedIn(plain), nestedIn(nestedIn(plain)));

function at(data: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (inner, step) =>
      Object.hasOwn(Object(inner), step) ? Reflect.get(Object(inner), step) : undefined,
    data,
  );
}

test('types found as required are present in all data that fit the schema', (t) => {
  let vouched = 0;
  const path = fc.constantFrom(['a'], ['a', 'a']);
  fc.assert(
    fc.property(schemas, path, value, (schema, steps, data) => {
      const found = requiredTypes(schema, steps);
      if (found === undefined) return;
      const fits = compileDataSchema(schema, syntax, { rule: 'r', field: 'schema' });
      if (!fits(data)) return;
      vouched += 1;
      if (!found.has(typeof at(data, steps)))
        throw new Error(JSON.stringify({ schema, steps, data }));
    }),
    tries(300),
  );
  t.true(vouched > 0);
});
