/** Limits of orders at the centre: orders that wait for sites, and results that sites report. */

import test from 'ava';
import Type from 'typebox';
import type { UserSubject } from '#acl';
import type { OrderInfo } from '#edge';
import { CentreOrders, type OrderRequest } from '#edge/orders/centre-orders.ts';
import { noResults, orderSiteRow, queuedOrderRow } from '#edge/orders/order-rows.ts';
import { WaitingOrders } from '#edge/orders/waiting-orders.ts';
import type { CentreContext } from '#edge/parts.ts';
import { createSilentLogger } from '#master';
import type { WireMap } from '#minion-protocol';
import { defineRow } from '#store';
import { policyOf } from '../helpers/policies.ts';
import { memoryRows } from './bundles/tuf-stage.ts';

const refusal = { code: 'ERR_SITE_MESSAGE' };

test('results of sites have limits, and are stored only in a final state', async (t) => {
  const shared = memoryRows({ now: 0 });
  const [id, site] = ['20261127000000000000', 'north'];
  const running = { result: { ...noResults, state: 'running' as const }, at: 0 };
  const key = ['order-sites', id, site];
  await shared.write([{ op: 'put', key, value: orderSiteRow.encode(running) }]);
  // Only these members are used.
  const orders = new CentreOrders({
    host: { shared, now: () => 1 },
  } as unknown as CentreContext);
  const operations = async (changed: object, ticket?: string): Promise<number> => {
    const result = JSON.stringify({ ...noResults, state: 'failed', ...changed });
    const value = { id, result, ...(ticket === undefined ? {} : { ticket }) };
    const entry = { site, value, class: 'signal', kind: 'order' } as const;
    const found = await orders.operationsOf({
      ...entry,
      sequence: 1,
      at: { ms: 1, count: 0 },
      packed: new Uint8Array(),
    });
    return found.length;
  };
  const failures = (count: number, minion = 'web1', reason = 'broken') =>
    Array.from({ length: count }, () => ({ minion, reason }));
  const names = (count: number, length: number) =>
    Array.from({ length: count }, () => 'x'.repeat(length));
  t.is(await operations({}), 2);
  t.is(await operations({ state: 'done', failures: failures(100), jids: names(100, 20) }), 2);
  for (const refused of [
    { failures: failures(101) },
    { failures: failures(1, 'x'.repeat(257)) },
    { failures: failures(1, 'web1', 'x'.repeat(201)) },
    { unaddressedNames: names(101, 1) },
    { jids: names(1, 257) },
    { state: 'running' },
    { state: 'waiting' },
    { site: 'south' },
    { failures: [{ minion: 'web1', reason: '', more: [] }] },
  ]) {
    await t.throwsAsync(operations(refused), refusal);
  }
});

function userOf(name: string): UserSubject {
  return { kind: 'user', name, groups: [], eauth: 'file' };
}

test('a result has a ticket only if its order is an enrolment, and not a long one', async (t) => {
  const { orders } = stage();
  const by = () => userOf('fred');
  const order = async (
    work: OrderRequest['work'],
  ): Promise<(ticket: string) => Promise<string>> => {
    const { id } = await orders.issue({ sites: ['north'], work, validSeconds: 10, by });
    return async (ticket) => {
      const result = JSON.stringify({ ...noResults, state: 'done' });
      const value = { id, result, ticket };
      const entry = { site: 'north', value, class: 'signal', kind: 'order' } as const;
      const place = { sequence: 1, at: { ms: 1, count: 0 }, packed: new Uint8Array() };
      const [stored] = await orders.operationsOf({ ...entry, ...place });
      if (stored?.op !== 'put') throw new Error('nothing was stored');
      const { key, value: bytes } = stored;
      return orderSiteRow.decode({ key, value: bytes }).ticket ?? '';
    };
  };
  const enrol = await order({ kind: 'enrol', minion: 'web1', project: 'p' });
  const longest = 'x'.repeat(4096);
  t.is(Buffer.from(await enrol(longest), 'base64').toString(), longest);
  await t.throwsAsync(enrol(`${longest}x`), refusal);
  const job = await order({ kind: 'job', tgt: '*', fun: 'test.ping' });
  await t.throwsAsync(job('x'), refusal);
});

test('a stored result cannot replace the name of its site', async (t) => {
  const { orders, issue, host } = stage();
  const { id } = await issue('fred', 'north');
  // Earlier versions stored all fields that a site had reported.
  const result = { ...noResults, state: 'done' as const, site: 'south' };
  const value = orderSiteRow.encode({ result, at: 0 });
  await host.shared.write([{ op: 'put', key: ['order-sites', id, 'north'], value }]);
  const { sites } = await orders.show(id);
  t.deepEqual(
    sites.map((it) => [it.site, it.state]),
    [['north', 'done']],
  );
});

/** Centre with the sites `north` and `south`, which are away. */
function stage() {
  const clock = { now: 1_000_000 };
  const policy = policyOf([]);
  let number = 0;
  const host = {
    now: () => clock.now,
    shared: { ...memoryRows(clock), follow: async () => {}, cluster: undefined },
    logger: createSilentLogger(),
    freshJid: async () => String(number++).padStart(20, '0'),
    policy: () => policy,
    decide: () => ({ effect: 'allow' }),
  };
  const sites = { joined: ['north', 'south'], show: async () => ({}) };
  const links = { callerOf: () => undefined };
  // Only these members are used.
  const orders = new CentreOrders({
    host,
    sites,
    links,
    sign: () => Buffer.alloc(64),
  } as unknown as CentreContext);
  const issue = (name: string, ...wanted: readonly string[]): Promise<OrderInfo> =>
    orders.issue({
      sites: wanted,
      work: { kind: 'job', tgt: '*', fun: 'test.ping' },
      validSeconds: 10,
      by: () => userOf(name),
    });
  const fill = async (name: string, count: number): Promise<void> => {
    for (let index = 0; index < count; index += 1) await issue(name, 'north');
  };
  return { clock, orders, issue, fill, host, sites };
}

test('the orders of one user for an absent site do not block those of others', async (t) => {
  const { issue, fill, orders } = stage();
  await fill('fred', 250);
  const code = 'ERR_LIMIT';
  await t.throwsAsync(issue('fred', 'north'), { code });
  t.is((await issue('eve', 'north')).counts.waiting, 1);
  // A full site does not block the other sites.
  const order = await issue('fred', 'north', 'south');
  t.like(order.counts, { waiting: 1, refused: 1 });
  const { sites } = await orders.show(order.id);
  t.regex(sites.find(({ site }) => site === 'north')?.reason ?? '', /too many orders wait/);
  for (const name of ['joe', 'ann']) await fill(name, 250);
  await fill('eve', 149);
  await t.throwsAsync(issue('eve', 'north'), { code }, 'the last places are for other users');
  t.is((await issue('bob', 'north')).counts.waiting, 1);
});

test('orders whose validity has ended do not count as waiting', async (t) => {
  const { clock, issue, fill } = stage();
  await fill('fred', 250);
  await t.throwsAsync(issue('fred', 'north'), { code: 'ERR_LIMIT' });
  clock.now += 10_000;
  t.is((await issue('fred', 'north')).counts.waiting, 1);
});

test('orders of a revoked site end, and give their places back', async (t) => {
  const { issue, fill, orders, host } = stage();
  await fill('fred', 249);
  const order = await issue('fred', 'north', 'south');
  const running = { result: { ...noResults, state: 'running' as const }, at: 0 };
  const other = await issue('fred', 'south');
  const key = ['order-sites', other.id, 'south'];
  await host.shared.write([{ op: 'put', key, value: orderSiteRow.encode(running) }]);
  await orders.drop('north');
  t.is(orders.waitingFor('north'), 0);
  t.is(orders.waitingFor('south'), 2);
  t.deepEqual(await Array.fromAsync(host.shared.list(['order-queue', 'north'])), []);
  const { sites } = await orders.show(order.id);
  t.deepEqual(
    sites.map(({ site, state }) => [site, state]),
    [
      ['north', 'refused'],
      ['south', 'waiting'],
    ],
  );
  t.regex(sites[0]?.reason ?? '', /was revoked or has left/);
  t.is((await issue('fred', 'north')).counts.waiting, 1);
  await orders.drop('south');
  t.like((await orders.show(other.id)).counts, { failed: 1, running: 0 });
  const late = { id: other.id, result: JSON.stringify({ ...noResults, state: 'done' }) };
  const entry = { site: 'south', value: late, class: 'signal', kind: 'order' } as const;
  const place = { sequence: 1, at: { ms: 1, count: 0 }, packed: new Uint8Array() };
  t.deepEqual(await orders.operationsOf({ ...entry, ...place }), []);
});

test('the centre rejects a job of a user whose arguments Salt would interpret', async (t) => {
  const { orders, host } = stage();
  const pillar = { x: '__slot__:salt:cmd.run(id)' };
  const user = userOf('fred');
  const fred = () => user;
  const order = (
    by: OrderRequest['by'],
    kwarg: { readonly pillar: WireMap },
  ): Promise<OrderInfo> => {
    const work = { kind: 'job', tgt: '*', fun: 'state.apply', kwarg } as const;
    return orders.issue({ sites: ['north'], work, validSeconds: 10, by });
  };
  await t.throwsAsync(order(fred, { pillar }), { code: 'ERR_ARGS' });
  t.deepEqual(await Array.fromAsync(host.shared.list(['orders'])), []);
  t.is((await order(fred, { pillar: {} })).counts.waiting, 1);
  t.is((await order(undefined, { pillar })).counts.waiting, 1, 'the operator');
});

test('an order for a site that is revoked meanwhile does not wait', async (t) => {
  const { issue, orders, sites, host } = stage();
  const { write } = host.shared;
  host.shared.write = async (operations) => {
    sites.joined = ['south'];
    return write(operations);
  };
  const order = await issue('fred', 'north', 'south');
  t.like(order.counts, { refused: 1, waiting: 1 });
  t.is(orders.waitingFor('north'), 0);
});

test('the number of waiting orders of a user is kept, not counted for each order', (t) => {
  const waiting = new WaitingOrders();
  let reads = 0;
  const order = (by: string, validUntil: number) => ({
    get by() {
      reads += 1;
      return by;
    },
    validUntil,
  });
  for (let number = 0; number < 250; number += 1) {
    // Some orders end together, and some later than those that are added after them.
    waiting.add('north', `${number}`, order('fred', 100 + ((number * 7) % 50)));
  }
  waiting.add('north', '0', order('fred', 100));
  t.is(waiting.size, 250);
  reads = 0;
  for (let time = 0; time < 100; time += 1) t.false(waiting.hasPlace('north', 'fred', time));
  t.is(reads, 0);
  t.true(waiting.hasPlace('north', 'eve', 99));
  t.true(waiting.hasPlace('south', 'fred', 99));
  // An order that was received gives its place back, once.
  waiting.remove('north', '7');
  waiting.remove('north', '7');
  t.true(waiting.hasPlace('north', 'fred', 99));
  waiting.add('north', '250', order('fred', 1000));
  t.false(waiting.hasPlace('north', 'fred', 99));
  // Five orders end at each time. They still wait, but do not count.
  t.true(waiting.hasPlace('north', 'fred', 100));
  t.is(waiting.sizeFor('north'), 250);
  for (let number = 0; number < 5; number += 1) {
    waiting.add('north', `later ${number}`, order('fred', 2000));
  }
  t.false(waiting.hasPlace('north', 'fred', 100));
  // The removal of an order that has ended gives nothing back.
  waiting.remove('north', '0');
  t.false(waiting.hasPlace('north', 'fred', 100));
  for (const id of [...waiting.of('north').keys()]) waiting.remove('north', id);
  t.is(waiting.size, 0);
  t.deepEqual(waiting.sites, []);
});

test('a waiting order of the former version counts for the operator', (t) => {
  const former = defineRow({
    name: 'waiting order',
    schema: Type.Object({ text: Type.String(), validUntil: Type.Number() }),
  });
  const value = former.encode({ text: 'x', validUntil: 1 });
  const row = queuedOrderRow.decode({ key: ['order-queue', 'north', '1'], value });
  t.deepEqual(row, { text: 'x', validUntil: 1, by: 'operator' });
});
