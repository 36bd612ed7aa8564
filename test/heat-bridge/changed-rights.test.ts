/** Rights that change while a plan of their user runs. */

import { PassThrough } from 'node:stream';
import test from 'ava';
import { pino } from 'pino';
import { allow } from '#acl';
import type { PlanHandle } from '#heat-bridge/plans/plan-request.ts';
import { createMemoryStore } from '#store';
import { startKeystone } from '../helpers/group-keystone.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories } from '../helpers/vector-master.ts';
import { echo, grant, startBridge, twice } from './stage.ts';

const staff = allow('staff', {
  subject: { group: 'staff' },
  action: 'command',
  resource: { fun: 'demo.echo', within: 'web*' },
});

test('a plan runs no further step after its user has left the group with the right', async (t) => {
  const { known, url } = await startKeystone(t);
  const isCalled = Promise.withResolvers<void>();
  const mayReturn = Promise.withResolvers<void>();
  const { bridge, master, seen } = await startBridge(t, {
    plans: [twice],
    ids: ['web1'],
    rules: [staff],
    config: { externalAuth: { keystone: { fred: ['test.*'] } }, eauth: { keystoneAuthUrl: url } },
    functions: {
      'test.echo': async () => {
        isCalled.resolve();
        await mayReturn.promise;
        return true;
      },
    },
  });
  const credentials = { username: 'fred', password: 'secret', eauth: 'keystone' };
  const { token } = await master.logins.login(credentials);
  const asked = { groups: { all: 'web1' }, params: { text: 'x' }, caller: { token } };
  const { outcome } = await bridge.plan('demo.twice', asked);
  await isCalled.promise;
  known.groups = [];
  // The master learns the groups of the user at a log-in.
  await master.logins.login(credentials);
  t.deepEqual((await master.logins.identify(token)).groups, []);
  mayReturn.resolve();
  const { status, steps } = await outcome;
  t.is(status, 'failed');
  t.deepEqual(
    steps.map((it) => [it.step, it.status]),
    [
      ['one', 'succeeded'],
      ['two', 'failed'],
    ],
  );
  t.regex(steps[1]?.reason ?? '', /^ERR_COMMAND_DENIED: /);
  t.is(seen.length, 1);
});

test('each command of a plan counts once towards the rate of its rule', async (t) => {
  const rule = { ...grant, rate: '2/hour' };
  const { bridge, seen } = await startBridge(t, { plans: [twice], ids: ['web1'], rules: [rule] });
  const plan = async (idempotencyKey: string): Promise<PlanHandle> =>
    bridge.plan('demo.twice', { groups: { all: 'web1' }, params: { text: 'x' }, idempotencyKey });
  t.is((await (await plan('k1')).outcome).status, 'succeeded');
  t.is(seen.length, 2);
  await t.throwsAsync(plan('k2'), { code: 'ERR_COMMAND_DENIED' });
  // A client that repeats its request gets the outcome.
  t.is((await (await plan('k1')).outcome).status, 'succeeded');
  t.is(seen.length, 2);
});

test('a command is not repeated after its user has left the group with the right', async (t) => {
  const { known, url } = await startKeystone(t);
  const isCalled = Promise.withResolvers<void>();
  const mayReturn = Promise.withResolvers<void>();
  const { bridge, master, seen } = await startBridge(t, {
    commands: [{ ...echo, idempotent: true, retries: 1 }],
    ids: ['web1'],
    rules: [staff],
    config: { externalAuth: { keystone: { fred: ['test.*'] } }, eauth: { keystoneAuthUrl: url } },
    functions: {
      'test.echo': async () => {
        isCalled.resolve();
        await mayReturn.promise;
        throw new Error('it fails');
      },
    },
  });
  const credentials = { username: 'fred', password: 'secret', eauth: 'keystone' };
  const { token } = await master.logins.login(credentials);
  const asked = { target: 'web1', params: { text: 'x' }, caller: { token } };
  const { outcome } = await bridge.run('demo.echo', asked);
  await isCalled.promise;
  known.groups = [];
  // The master learns the groups of the user at a log-in.
  await master.logins.login(credentials);
  t.deepEqual((await master.logins.identify(token)).groups, []);
  mayReturn.resolve();
  t.like(await outcome, { status: 'failed', jids: { length: 1 } });
  t.is(seen.length, 1);
});

test('a run that waits while its user loses the right ends with the denial, not an internal error', async (t) => {
  const { known, url } = await startKeystone(t);
  const mayReturn = Promise.withResolvers<void>();
  const isCalled = Promise.withResolvers<void>();
  const out = new PassThrough();
  const errors: unknown[] = [];
  out.on('data', (line: Buffer) => {
    if (JSON.parse(String(line)).level >= 50) errors.push(String(line));
  });
  const { bridge, master, seen } = await startBridge(t, {
    commands: [{ ...echo, concurrency: { total: 1, queue: 5 } }],
    ids: ['web1'],
    rules: [staff],
    logger: pino({ level: 'error' }, out),
    config: { externalAuth: { keystone: { fred: ['test.*'] } }, eauth: { keystoneAuthUrl: url } },
    functions: {
      'test.echo': async () => {
        isCalled.resolve();
        await mayReturn.promise;
        return true;
      },
    },
  });
  const credentials = { username: 'fred', password: 'secret', eauth: 'keystone' };
  const { token } = await master.logins.login(credentials);
  const asked = { target: 'web1', params: { text: 'x' }, caller: { token } };
  const first = await bridge.run('demo.echo', asked);
  await isCalled.promise;
  const second = await bridge.run('demo.echo', asked);
  known.groups = [];
  // The master learns the groups of the user at a log-in.
  await master.logins.login(credentials);
  t.deepEqual((await master.logins.identify(token)).groups, []);
  mayReturn.resolve();
  t.is((await first.outcome).status, 'succeeded');
  await t.throwsAsync(second.outcome, { code: 'ERR_COMMAND_DENIED' });
  t.is(seen.length, 1);
  t.deepEqual(errors, []);
});

test('a run is continued only if the rules permit it on the minions that it was started on', async (t) => {
  const store = createMemoryStore();
  const config = directories(temporaryDirectory(t));
  const silent = { 'test.echo': () => new Promise<boolean>(() => {}) };
  const ids = ['web1', 'web2'];
  const first = await startBridge(t, { store, config, ids, functions: silent });
  const request = { target: 'web*', params: { text: 'x' }, idempotencyKey: 'k1' };
  const { updates, outcome } = await first.bridge.run('demo.echo', request);
  await updates()[Symbol.asyncIterator]().next();
  await first.master.close();
  t.is((await outcome).status, 'interrupted');
  await Promise.all([...first.minions.values()].map((minion) => minion.stop()));
  const { stateDir = '', pkiDir = '' } = config;
  const fresh = directories(temporaryDirectory(t));
  const second = await startBridge(t, {
    ...{ store, ids },
    config: { ...fresh, stateDir, pkiDir },
    rules: [
      allow('demo', {
        subject: { service: 'bridge' },
        action: 'command',
        resource: { fun: 'demo.*', within: 'web1' },
      }),
    ],
  });
  await t.throwsAsync(second.bridge.run('demo.echo', request), { code: 'ERR_COMMAND_DENIED' });
  t.deepEqual(second.seen, []);
});
