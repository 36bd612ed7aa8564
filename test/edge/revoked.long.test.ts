/** Data of a site at its centre after the site was revoked. */

import path from 'node:path';
import test from 'ava';
import type { OrderInfo, OrderReport, SiteInfo } from '#edge';
import { siteRow } from '#edge/identity/site-rows.ts';
import type { StoredEntry } from '#edge/log/centre-entries.ts';
import { type Operation, openEmbeddedStore } from '#store';
import { eventually, siteInfo, startCentre } from './edge-stage.ts';
import { issue } from './order-stage.ts';
import { batchOf, entryOf, joinRaw, RawLink } from './raw-site.ts';

test('entries and orders of a revoked site do not remain usable, and it can join again without them', async (t) => {
  const centre = await startCentre(t);
  const rpc = centre.rpc('site');
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  const alarm = (number: number, log: string) =>
    batchOf([entryOf(number, 'event', { tag: 'fire', data: {} })], log.repeat(16));
  t.like(await link.ask('log.alarm', alarm(1, 'A')), { kind: 'reply' });
  t.like(await link.ask('log.turn', {}), { kind: 'reply' });
  const fact = { minion: 'web1', present: true, grains: {} };
  t.like(await link.ask('log.fact', batchOf([entryOf(1, 'minion', fact)])), { kind: 'reply' });
  // The site does not reply to the order.
  const order: OrderInfo = await issue(centre, ['north'], {
    kind: 'job',
    tgt: '*',
    fun: 'test.ping',
  });
  t.is((await siteInfo(centre, 'north')).waitingOrders, 1);
  const minions = async (): Promise<number> =>
    (await Array.fromAsync(rpc.stream('minions'))).length;
  t.is(await minions(), 1);
  t.like(await rpc.call<SiteInfo>('revoke', { name: 'north' }), {
    state: 'revoked',
    isConnected: false,
    waitingOrders: 0,
  });
  // The reply of `revoke` is sent after the deletion.
  t.is(await minions(), 0);
  t.deepEqual(await rpc.call('entries', { name: 'north' }), []);
  const { sites } = await rpc.call<OrderReport>('result', { id: order.id });
  t.is(sites[0]?.state, 'refused');
  const again = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await again.isWelcome());
  t.like(await again.ask('log.alarm', alarm(1, 'B')), { kind: 'reply' }, 'no order arrives');
  await eventually(async () => (await siteInfo(centre, 'north')).isConnected);
  const entries = await rpc.call<readonly StoredEntry[]>('entries', { name: 'north' });
  t.is(entries.length, 1);
});

test('a centre that ended during a revocation deletes the entries of the site when it starts', async (t) => {
  const former = await startCentre(t);
  const sites = ['north', 'south', 'west'];
  for (const name of sites) {
    const link = await RawLink.signIn(t, former, await joinRaw(t, former, name));
    t.true(await link.isWelcome());
    const event = entryOf(1, 'event', { tag: 'fire', data: {} });
    t.like(await link.ask('log.alarm', batchOf([event])), { kind: 'reply' });
  }
  await former.server.close();
  const store = await openEmbeddedStore({ directory: path.join(former.stateDir, 'store') });
  const rows = (...below: readonly string[]): readonly string[] => [
    ...['state', 'site', 'centre'],
    ...below,
  ];
  const revoked = (name: string): Operation => {
    const value = siteRow.encode({ name, state: 'revoked', revokedAt: Date.now() });
    return { op: 'put', key: rows('site', name), value };
  };
  const ended = (name: string): Operation => {
    return { op: 'put', key: rows('ended', name), value: new Uint8Array(0) };
  };
  // An earlier version has revoked the second site, and stored no row for the deletion. The last
  // site has sent no entries.
  await store.write([
    ...[revoked('north'), ended('north')],
    revoked('south'),
    ...[revoked('east'), ended('east')],
  ]);
  await store.close();
  const centre = await startCentre(t, {}, former.directory);
  const counts = sites.map(async (name) => {
    const entries = await centre.rpc('site').call<readonly StoredEntry[]>('entries', { name });
    return entries.length;
  });
  t.deepEqual(await Promise.all(counts), [0, 0, 1]);
  await centre.server.close();
  const after = await openEmbeddedStore({ directory: path.join(former.stateDir, 'store') });
  t.teardown(() => after.close());
  for (const kind of ['entry', 'kept', 'ended']) {
    const keys = (await Array.fromAsync(after.list(rows(kind)))).map(({ key }) => key);
    t.true(
      keys.every((key) => key.includes('west')),
      String(keys),
    );
  }
});

test('undelivered signals of a revoked site are dead letters', async (t) => {
  const handles = { endpoints: ['http://127.0.0.1:9'] };
  const centre = await startCentre(t, { bridge: { handles } });
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  const signal = { id: '1', tag: 'heat/ready', minion: 'web1', data: { status: 'SUCCESS' } };
  const reply = await link.ask('log.signal', batchOf([entryOf(1, 'signal', signal)]));
  t.like(reply, { value: { sequence: 1, refused: [] } });
  const { outbox } = centre.server.bridge;
  const states = async () => (await outbox.list()).map(({ minion, state }) => [minion, state]);
  t.deepEqual(await states(), [['web1', 'held']]);
  await centre.rpc('site').call('revoke', { name: 'north' });
  t.deepEqual(await states(), [['web1', 'dead']]);
});
