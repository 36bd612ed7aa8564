/** Minions whose keys end while runs that were sent to them are stored, or wait. */

import test from 'ava';
import { LostKeys } from '#heat-bridge/commands/lost-keys.ts';
import type { ExtensionHost } from '#master';
import { createMemoryStore } from '#store';
import { within } from '../helpers/deadline.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories } from '../helpers/vector-master.ts';
import { memoryState } from './signals/open-signals.ts';
import { startBridge, twice } from './stage.ts';

const lostKey = /^the key of the minion was deleted, rejected or replaced/;

test('the end of a key is known after a restart, for three days', async (t) => {
  const clock = { at: 1_000 };
  const now = (): number => clock.at;
  const host = { shared: memoryState(now), now };
  const first = await LostKeys.open(host);
  await first.note('web1', 'here');
  clock.at = 2_000;
  for (const keys of [first, await LostKeys.open(host)]) {
    t.deepEqual(keys.since(['web1', 'web2'], 1_000), ['web1']);
    t.deepEqual(keys.since(['web1', 'web2'], 1_001), []);
    const returned = (receivedAt: number): boolean =>
      keys.isOfNextMachine({ minion: 'web1', receivedAt }, 500);
    t.deepEqual([999, 1_000].map(returned), [false, true]);
    t.false(keys.isOfNextMachine({ minion: 'web1', receivedAt: 1_500 }, 1_001));
  }
  clock.at += 3 * 86_400_000;
  await first.note('web2', 'here');
  t.deepEqual(first.since(['web1', 'web2'], 0), ['web2']);
  t.deepEqual((await LostKeys.open(host)).since(['web1', 'web2'], 0), ['web2']);
});

test('in a cluster, only the member that ends a key records the time', async (t) => {
  const clock = { at: 1_000 };
  const now = (): number => clock.at;
  const shared = memoryState(now);
  const cluster: ExtensionHost['shared']['cluster'] = Object.create(null);
  const keys = await LostKeys.open({ shared: { ...shared, cluster }, now });
  await keys.note('web1', 'elsewhere');
  t.deepEqual(keys.since(['web1'], 0), []);
  await keys.note('web1', 'earlier');
  t.deepEqual(keys.since(['web1'], 1_000), ['web1']);
  clock.at = 2_000;
  await keys.note('web1', 'earlier');
  t.deepEqual(keys.since(['web1'], 1_001), []);
  await keys.note('web1', 'here');
  t.deepEqual(keys.since(['web1'], 2_000), ['web1']);
  // Without a cluster, the master itself ended the key, or found at its start that it had ended.
  const alone = await LostKeys.open({ shared, now });
  clock.at = 3_000;
  await alone.note('web1', 'earlier');
  t.deepEqual(alone.since(['web1'], 3_000), ['web1']);
});

test('a run does not continue after a restart on a machine that has the id of another one now', async (t) => {
  const store = createMemoryStore();
  const config = directories(temporaryDirectory(t));
  const silent = { 'test.echo': () => new Promise<boolean>(() => {}) };
  const ids = ['web1'];
  const first = await startBridge(t, { store, config, ids, functions: silent });
  const request = { target: 'web1', params: { text: 'x' }, idempotencyKey: 'k1' };
  const { updates, outcome } = await first.bridge.run('demo.echo', request);
  await updates()[Symbol.asyncIterator]().next();
  await first.master.close();
  t.is((await outcome).status, 'interrupted');
  await first.minions.get('web1')?.stop();
  // The key is deleted while the master is stopped, and another machine gets the id.
  const { stateDir = '' } = config;
  const fresh = directories(temporaryDirectory(t));
  const second = await startBridge(t, { store, ids, config: { ...fresh, stateDir } });
  const run = await second.bridge.run('demo.echo', request);
  const { status, results } = await within('the end of the run', run.outcome);
  t.is(status, 'failed');
  t.like(results, [{ minion: 'web1', state: 'silent' }]);
  t.regex(results[0]?.reason ?? '', lostKey);
  t.deepEqual(second.seen, []);
});

test('a run continues after a restart with the returns of minions whose keys ended later', async (t) => {
  const store = createMemoryStore();
  const config = directories(temporaryDirectory(t));
  const functions = {
    'test.echo': async (_call: unknown, { id }: { readonly id: string }) =>
      id === 'web2' || new Promise<boolean>(() => {}),
  };
  const ids = ['web1', 'web2'];
  const first = await startBridge(t, { store, config, ids, functions });
  const request = { target: 'web*', params: { text: 'x' }, idempotencyKey: 'k1' };
  const { updates } = await first.bridge.run('demo.echo', request);
  for await (const update of updates()) if (update.type === 'result') break;
  await first.master.close();
  for (const minion of first.minions.values()) await minion.stop();
  const { stateDir = '' } = config;
  const fresh = directories(temporaryDirectory(t));
  const second = await startBridge(t, { store, ids, config: { ...fresh, stateDir } });
  const run = await second.bridge.run('demo.echo', request);
  const { results, jids } = await within('the end of the run', run.outcome);
  t.like(results, [
    { minion: 'web1', state: 'silent' },
    { minion: 'web2', state: 'succeeded', return: true },
  ]);
  t.is(jids.length, 1);
});

test('a plan runs no further step on a machine that has the id of another one now', async (t) => {
  const isCalled = Promise.withResolvers<void>();
  const mayReturn = Promise.withResolvers<void>();
  const { bridge, master, minions } = await startBridge(t, {
    plans: [twice],
    ids: ['web1', 'web2'],
    functions: {
      'test.echo': async (_call, { id }) => {
        if (id === 'web2') return true;
        isCalled.resolve();
        await mayReturn.promise;
        return true;
      },
    },
  });
  const asked = { groups: { all: 'web*' }, params: { text: 'x' } };
  const { outcome, updates } = await bridge.plan('demo.twice', asked);
  await isCalled.promise;
  for await (const update of updates()) {
    if (update.type === 'result' && update.result.minion === 'web2') break;
  }
  await minions.get('web2')?.stop();
  await master.keys.delete({ match: 'web2' });
  mayReturn.resolve();
  const { steps } = await outcome;
  const results = steps[1]?.results ?? [];
  t.like(results, [
    { minion: 'web1', state: 'succeeded' },
    { minion: 'web2', state: 'silent' },
  ]);
  t.regex(results[1]?.reason ?? '', lostKey);
});
