/** Orders of a centre for its sites, on real sockets, with embedded minions at the sites. */

import { sign } from 'node:crypto';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import type { OrderInfo, OrderReport, OrderWork } from '#edge';
import { EdgeError } from '#edge/errors.ts';
import { generateKey, publicBytesOf, signParts } from '#edge/identity/ed25519.ts';
import type { LinkCaller } from '#edge/link/link.ts';
import { parseApprovedPlans } from '#edge/orders/approved-plan-file.ts';
import { CentreOrders } from '#edge/orders/centre-orders.ts';
import { type Order, readOrder, writeOrder } from '#edge/orders/order.ts';
import { noResults, orderSiteRow, queuedOrderRow } from '#edge/orders/order-rows.ts';
import { checkOrderRights, runOrder } from '#edge/orders/run-order.ts';
import type { CentreContext } from '#edge/parts.ts';
import { createSilentLogger, type ExtensionHost, masterServices, type SharedArea } from '#master';
import type { CallArguments } from '#minion-protocol/minion/functions.ts';
import { codeOf, errorMessage, maxSliceSteps } from '#runtime';
import { slicesOf } from '../helpers/slices.ts';
import { TcpProxy } from '../helpers/tcp-proxy.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { memoryRows } from './bundles/tuf-stage.ts';
import { eventually, siteStatus, startCentre, startMaster, startSite } from './edge-stage.ts';
import { ended, issue, join } from './order-stage.ts';
import { joinRaw } from './raw-site.ts';
import { sitesSection, testsOfCentre } from './sections.ts';

const usual = {
  autoAccept: true,
  timeoutSeconds: 60,
  gatherJobTimeoutSeconds: 60,
  acl: testsOfCentre,
};

const echo: OrderWork = { kind: 'job', tgt: '*', fun: 'test.echo', arg: ['héllo', 1.5] };

test('a job runs once at each site, and its result is at the centre', async (t) => {
  const centre = await startCentre(t);
  const calls: unknown[] = [];
  const functions = {
    'test.echo': ({ args }: CallArguments) => {
      calls.push(args);
      return 'done';
    },
  };
  const north = await startSite(t, centre, 'north', usual);
  const south = await startSite(t, centre, 'south', usual);
  await join(t, north, 'web1', functions);
  await join(t, south, 'web1', functions, 1);
  const report = await ended(centre, await issue(centre, ['*'], echo));
  t.like(report.counts, { done: 2, failed: 0, waiting: 0 });
  t.deepEqual(
    report.sites.map(({ site, succeeded }) => [site, succeeded]),
    [
      ['north', 1],
      ['south', 1],
    ],
  );
  t.is(calls.length, 2);
  t.deepEqual(calls[0], ['héllo', 1.5]);
});

// EDGE-C10 of docs/consistency.md
test('a site that is away gets the order when it is back, and runs it once', async (t) => {
  const centre = await startCentre(t);
  const proxy = await TcpProxy.start(centre.port);
  t.teardown(() => proxy.close());
  const calls: string[] = [];
  const url = `http://127.0.0.1:${proxy.port}`;
  const site = await startSite(t, centre, 'north', usual, url);
  await join(t, site, 'web1', { 'test.echo': () => calls.push('call') });
  await eventually(async () => (await siteStatus(site)).isConnected);
  proxy.close();
  await eventually(async () => !(await siteStatus(site)).isConnected);
  const order = await issue(centre, ['north'], echo);
  t.is(order.counts.waiting, 1);
  const before = await centre.rpc('site').call<OrderReport>('result', { id: order.id });
  t.is(typeof before.sites[0]?.notReachedSince, 'number');
  proxy.resume();
  const report = await ended(centre, order);
  t.is(report.counts.done, 1);
  t.is(calls.length, 1);
});

test("a site refuses what its policy does not permit, in the policy's own words", async (t) => {
  const centre = await startCentre(t);
  const site = await startSite(t, centre, 'north', usual);
  await join(t, site, 'web1', { 'cmd.run': () => t.fail('the function ran') });
  const work: OrderWork = { kind: 'job', tgt: '*', fun: 'cmd.run', arg: ['id'] };
  const report = await ended(centre, await issue(centre, ['north'], work));
  t.is(report.counts.refused, 1);
  const explained = await site.server.master.acl.explain({
    subject: { kind: 'user', name: 'operator', groups: [], eauth: 'centre' },
    action: 'publish',
    resource: 'cmd.run',
    arg: ['id'],
    target: { tgt: '*' },
  });
  t.is(report.sites[0]?.reason, explained.decision.reason);
});

test('failures, silence and names without a key are in the result', async (t) => {
  const centre = await startCentre(t);
  const site = await startSite(t, centre, 'north', usual);
  await join(t, site, 'web1', { 'test.echo': () => 1 });
  await join(
    t,
    site,
    'web2',
    {
      'test.echo': () => {
        throw new Error('broken');
      },
    },
    1,
  );
  const work: OrderWork = { ...echo, tgt: ['web1', 'web2', 'nobody'], tgtType: 'list' };
  const report = await ended(centre, await issue(centre, ['north'], work));
  t.is(report.counts.failed, 1);
  const [result] = report.sites;
  t.like(result, { succeeded: 1, failed: 1, unaddressed: 1, unaddressedNames: ['nobody'] });
  t.is(result?.failures[0]?.minion, 'web2');
});

// EDGE-C10 of docs/consistency.md
test('an order whose validity ends before the site is back is expired', async (t) => {
  const centre = await startCentre(t);
  const site = await startSite(t, centre, 'north', usual);
  await site.server.close();
  const { id } = await issue(centre, ['north'], echo, 1);
  const stateOf = async (): Promise<string | undefined> => {
    const { sites } = await centre.rpc('site').call<OrderReport>('result', { id });
    return sites[0]?.state;
  };
  t.is(await stateOf(), 'waiting');
  await eventually(async () => (await stateOf()) === 'expired');
  const orders = await centre.rpc('site').call<readonly OrderInfo[]>('orders');
  t.is(orders[0]?.counts.expired, 1);
});

test('an unknown site, and a site without a right, are refused at the centre', async (t) => {
  const centre = await startCentre(t);
  await t.throwsAsync(issue(centre, ['south'], echo), { code: 'ERR_SITE_UNKNOWN' });
});

test("users need a rule at the centre, and are refused in the policy's own words", async (t) => {
  const rules = [
    {
      name: 'fred tests the north',
      effect: 'allow',
      subject: { user: 'fred' },
      action: 'command',
      resource: {
        fun: 'site.order',
        arguments: [{ kwargs: { site: 'north', kind: 'job', what: 'test.*' } }],
      },
    },
  ] as const;
  const centre = await startCentre(t, {
    acl: { rules },
    eauth: { sharedsecret: 'secret' },
    externalAuth: { sharedsecret: { fred: ['test.version'] } },
  });
  for (const name of ['north', 'south']) await joinRaw(t, centre, name);
  const { token } = await centre.server.master.logins.login({
    eauth: 'sharedsecret',
    username: 'fred',
    password: 'secret',
  });
  const order = (sites: readonly string[], work: OrderWork): Promise<OrderInfo> =>
    centre.rpc('site').call<OrderInfo>('order', { sites, work, token });
  t.like(await order(['north'], echo), { by: 'fred', counts: { waiting: 1 } });
  const { reason } = (
    await centre.server.master.acl.explain({
      subject: { kind: 'user', name: 'fred', groups: [], eauth: 'sharedsecret' },
      action: 'command',
      resource: 'site.order',
      arg: ['site=north', 'kind=job', 'what=cmd.run'],
    })
  ).decision;
  await t.throwsAsync(order(['north'], { kind: 'job', tgt: '*', fun: 'cmd.run' }), {
    code: 'ERR_DENIED',
    message: `order for north denied: ${reason}`,
  });
  await t.throwsAsync(order(['south'], echo), { code: 'ERR_DENIED', message: /^order for south / });
});

test('users learn no names of sites for which they may not issue orders', async (t) => {
  const rules = [
    {
      name: 'fred tests the north',
      effect: 'allow',
      subject: { user: 'fred' },
      action: 'command',
      resource: { fun: 'site.order', arguments: [{ kwargs: { site: 'north' } }] },
    },
  ] as const;
  const centre = await startCentre(t, {
    acl: { rules },
    sites: sitesSection({ rings: { canary: ['south'], mixed: ['north', 'south'], rest: 100 } }),
    eauth: { sharedsecret: 'secret' },
    externalAuth: { sharedsecret: { fred: ['test.version'], eve: ['test.version'] } },
  });
  for (const name of ['north', 'south']) await joinRaw(t, centre, name);
  const ordersOf = async (username: string) => {
    const login = { eauth: 'sharedsecret', username, password: 'secret' };
    const { token } = await centre.server.master.logins.login(login);
    return async (...sites: readonly string[]): Promise<string> => {
      const request = { sites, work: echo, token };
      try {
        const { id } = await centre.rpc('site').call<OrderInfo>('order', request);
        const report = await centre.rpc('site').call<OrderReport>('result', { id });
        return report.sites.map(({ site }) => site).join();
      } catch (error) {
        return String(codeOf(error)) + errorMessage(error).replaceAll(sites[0] ?? '', 'SITE');
      }
    };
  };
  const fred = await ordersOf('fred');
  const eve = await ordersOf('eve');
  t.is(await fred('*'), 'north');
  t.is(await fred('[ns]o*', 'ring:mixed'), 'north');
  const refusal = await fred('nowhere');
  t.regex(refusal, /^ERR_DENIEDorder for SITE denied: /);
  for (const pattern of ['south', 's*', 'x*', 'ring:canary', 'ring:none']) {
    t.is(await fred(pattern), refusal, pattern);
    t.is(await fred(pattern, 'nosuch*'), refusal, pattern);
  }
  const other = await eve('nowhere');
  t.regex(other, /^ERR_DENIEDorder for SITE denied: /);
  for (const pattern of ['south', '*', 'x*', 'ring:mixed', 'ring:none']) {
    t.is(await eve(pattern), other, pattern);
  }
});

test('many globs on the names of many sites are matched with pauses', async (t) => {
  const joined = Array.from({ length: 500 }, (_, index) => `site-${index}`);
  const globs = Array.from({ length: 500 }, (_, index) => `s?t*-*${'*'.repeat(index)}`);
  // Only these services are used.
  const orders = new CentreOrders({ host: {}, sites: { joined } } as unknown as CentreContext);
  const request = { sites: [...globs, 'nosuch*'], work: echo, validSeconds: 60, by: undefined };
  const slices = await slicesOf(() =>
    t.throwsAsync(orders.issue(request), { code: 'ERR_SITE_UNKNOWN' }),
  );
  t.true(slices.length > 10);
  t.true(Math.max(...slices) < 2 * maxSliceSteps);
});

test('a job runs only on the minions for which its rights were checked', async (t) => {
  const rules = [
    {
      name: 'the centre tests web servers',
      effect: 'allow',
      subject: { user: '*', eauth: 'centre' },
      action: 'publish',
      resource: { fun: 'test.*', within: 'web*' },
    },
  ] as const;
  const hosts: ExtensionHost[] = [];
  const site = await startMaster(t, {
    ...usual,
    acl: { rules },
    extensions: [
      {
        name: 'host-probe',
        open: async (host) => {
          hosts.push(host);
          return {};
        },
      },
    ],
  });
  const calls: string[] = [];
  for (const [index, id] of ['web1', 'db1'].entries()) {
    await join(t, site, id, { 'test.echo': () => calls.push(id) }, index);
  }
  const [host] = hosts;
  if (host === undefined) return t.fail('the master did not open the extension');
  const { facts } = host.use(masterServices.jobs);
  const keep = (id: string, role: string): Promise<void> =>
    facts.keep([{ id, grains: { role }, pillar: {} }]);
  const order: Order = {
    id: '1'.repeat(20),
    site: 'north',
    by: { name: 'fred', groups: [] },
    work: { kind: 'job', tgt: 'role:web', tgtType: 'grain', fun: 'test.echo' },
    issuedAt: 0,
    validUntil: Date.now() + 60_000,
  };
  await keep('web1', 'web');
  await checkOrderRights(host, order);
  const jid = await host.freshJid();
  t.like(await runOrder(host, order, jid, 60), { result: { state: 'done', succeeded: 1 } });
  t.deepEqual(calls, ['web1']);
  t.like(await host.master().jobs.show(jid), { tgt: ['web1'], tgtType: 'list' });
  await keep('db1', 'web');
  // The user has no right on the minion that matches now too.
  const again = await host.freshJid();
  const { result } = await runOrder(host, order, again, 60);
  t.like(result, { state: 'done', succeeded: 1 });
  t.regex(result.reason ?? '', /only to the minions that the rules of the site permit/);
  t.deepEqual(calls, ['web1', 'web1']);
  t.like(await host.master().jobs.show(again), { tgt: ['web1'], tgtType: 'list' });
  const work: OrderWork = { kind: 'job', tgt: 'role:web', tgtType: 'grain', fun: 'cmd.run' };
  const other: Order = { ...order, work };
  const jidOfOther = await host.freshJid();
  await t.throwsAsync(runOrder(host, other, jidOfOther, 60), { code: 'ERR_ORDER_DENIED' });
  const enrolment: Order = { ...order, work: { kind: 'enrol', minion: 'web2', project: 'shop' } };
  await t.throwsAsync(runOrder(host, enrolment, '', 60), { code: 'ERR_ORDER_DENIED' });
});

test('an order of another centre, for another site, or altered, is refused', (t) => {
  const key = generateKey();
  const order: Order = {
    id: '20261127000000000001',
    site: 'north',
    by: { name: 'operator', groups: [] },
    work: echo,
    issuedAt: 1,
    validUntil: 2,
  };
  const other = generateKey();
  const text = writeOrder(order, (bytes) => sign(null, bytes, key));
  t.deepEqual(readOrder(text, publicBytesOf(key), 'north'), order);
  for (const [given, site, by] of [
    [text, 'south', key],
    [text, 'north', other],
    [text.replace('order-1', 'order-2'), 'north', key],
    [`${text}.x`, 'north', key],
    [text.replace(/\.[^.]*\./, (body) => body.replace('.e', '.f')), 'north', key],
    [writeOrder(order, (bytes) => sign(null, bytes, other)), 'north', key],
    [writeOrder(order, () => signParts(key, 'another purpose', [])), 'north', key],
  ] as const) {
    t.throws(() => readOrder(given, publicBytesOf(by), site), { code: 'ERR_ORDER_INVALID' });
  }
});

const catalog = `
db.promote:
  description: Makes a database the primary one.
  function: test.promote
  reviewed: it only exists in this test
  idempotent: true
plans:
  db.failover:
    description: Makes the spare database the primary one.
    groups: { db: { description: The databases. } }
    steps: { promote: { command: db.promote, group: db } }
`;

const orders = `
plans:
  failover:
    on: { link-lost: 1 }
    plan: db.failover
    groups: { db: "db*" }
`;

test('an approved plan runs when the link is lost, and its outcome arrives afterwards', async (t) => {
  const centre = await startCentre(t);
  const arrived: unknown[] = [];
  const events = await centre.server.master.events.subscribe({ match: 'saltbridge/site/*' });
  const proxy = await TcpProxy.start(centre.port);
  t.teardown(() => proxy.close());
  const directory = temporaryDirectory(t);
  writeFileSync(path.join(directory, 'catalog.yml'), catalog);
  const rules = [
    {
      name: 'the plan may promote',
      effect: 'allow',
      subject: { service: 'site-plan:failover' },
      action: 'command',
      resource: { fun: 'db.promote' },
    },
  ] as const;
  const bridge = { catalog: [path.join(directory, 'catalog.yml')] };
  const url = `http://127.0.0.1:${proxy.port}`;
  const site = await startSite(
    t,
    centre,
    'north',
    { ...usual, acl: { rules }, bridge },
    url,
    (state) => {
      mkdirSync(`${state}/site/bundles/1`, { recursive: true });
      writeFileSync(`${state}/site/bundles/1/orders.yml`, orders);
      symlinkSync('bundles/1', `${state}/site/current`);
    },
  );
  let promotions = 0;
  await join(t, site, 'db2', {
    'test.promote': () => {
      promotions += 1;
      return true;
    },
  });
  await eventually(async () => (await siteStatus(site)).isConnected);
  proxy.close();
  await eventually(() => promotions === 1, 'the plan');
  proxy.resume();
  for await (const event of events) {
    arrived.push(event);
    if (event.tag === 'saltbridge/site/north/plan') break;
  }
  t.like(arrived.at(-1), { data: { name: 'failover', cause: 'link lost', status: 'succeeded' } });
  t.is(promotions, 1);
});

test('orders.yml is checked', (t) => {
  const valid =
    'plans:\n  failover:\n    on: { link-lost: 60 }\n    plan: db.failover\n    groups: { db: "db*" }\n';
  t.deepEqual([...parseApprovedPlans(valid).keys()], ['failover']);
  for (const text of [
    valid.replace('link-lost: 60', 'link-lost: 0'),
    valid.replace('link-lost: 60', 'cron: never'),
    valid.replace('plan:', 'plans:'),
    valid.replace('{ link-lost: 60 }', '{}'),
    'plans: [',
    'x'.repeat(2_000_000),
  ]) {
    t.throws(() => parseApprovedPlans(text), { code: 'ERR_ORDER_INVALID' }, text.slice(0, 80));
  }
});

test('orders that wait for the reply of a lost connection are sent over the next one', async (t) => {
  const shared = { ...memoryRows({ now: 0 }), follow: async () => {}, cluster: undefined };
  const [id, site] = ['20261127000000000000', 'north'];
  const at = { at: 0 };
  const state = orderSiteRow.encode({ result: { ...noResults, state: 'waiting' }, ...at });
  await shared.write([
    { op: 'put', key: ['order-sites', id, site], value: state },
    {
      op: 'put',
      key: ['order-queue', site, id],
      value: queuedOrderRow.encode({ text: 'order', validUntil: 1, by: 'operator' }),
    },
  ]);
  const follow: SharedArea['follow'] = async (prefix, listener) => {
    for await (const entry of shared.list(prefix)) listener({ type: 'put', entry });
  };
  const host = { now: () => 0, shared: { ...shared, follow }, logger: createSilentLogger() };
  const links = { callerOf: () => undefined };
  // Only these services are used.
  const orders = new CentreOrders({
    host,
    links,
    sites: { joined: [site] },
  } as unknown as CentreContext);
  await orders.start();
  t.teardown(() => orders.close());
  const lost = Promise.withResolvers<never>();
  orders.giveAll(site, { call: () => lost.promise });
  const given = Promise.withResolvers<void>();
  // The schema of the reply is not checked here.
  const call = (async () => {
    given.resolve();
    return { state: 'accepted' };
  }) as LinkCaller['call'];
  orders.giveAll(site, { call });
  lost.reject(new EdgeError('ERR_SITE_LINK', 'lost'));
  await given.promise;
  await eventually(() => orders.waiting === 0, 'the order is given');
  t.pass();
});
