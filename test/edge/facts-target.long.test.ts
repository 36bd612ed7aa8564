/** Orders whose target is a compound over the facts that sites have reported. */

import test, { type ExecutionContext } from 'ava';
import type { OrderInfo, OrderWork } from '#edge';
import { resolveFacts } from '#edge/facts/facts-target.ts';
import type { SiteIdentity } from '#edge/identity/site-identity.ts';
import { decodeFrame, encodeFrame } from '#edge/link/frames.ts';
import { decodeValue } from '#edge/log/log-codec.ts';
import { readOrder } from '#edge/orders/order.ts';
import { packLocal, type WireMap } from '#minion-protocol';
import { userWork, WorkBudget } from '#runtime';
import { workSlices } from '#runtime/work-budget.ts';
import { runCli } from '../cli/run-cli.ts';
import { type Centre, startCentre } from './edge-stage.ts';
import { batchOf, entryOf, joinRaw, RawLink } from './raw-site.ts';

const work: OrderWork = { kind: 'job', tgt: '*', fun: 'test.ping' };
const hour = 3_600_000;
const now = Date.now();

type Facts = readonly [minion: string, grains: WireMap, ms: number, present?: boolean];

/** Joins a site and reports facts of its minions. */
async function report(
  t: ExecutionContext,
  centre: Centre,
  name: string,
  facts: readonly Facts[],
): Promise<SiteIdentity> {
  const identity = await joinRaw(t, centre, name);
  const link = await RawLink.signIn(t, centre, identity);
  t.true(await link.isWelcome());
  await link.ask('log.turn', {});
  const entries = facts.map(([minion, grains, ms, present = true], index) =>
    entryOf(index + 1, 'minion', { minion, present, grains }, ms),
  );
  t.like(await link.ask('log.fact', batchOf(entries)), { value: { refused: [] } });
  link.socket.terminate();
  return identity;
}

const debian = { os: 'Debian', roles: ['db'] };

/** Starts a centre with facts of two sites. */
async function stage(t: ExecutionContext): Promise<{ centre: Centre; north: SiteIdentity }> {
  const centre = await startCentre(t);
  const north = await report(t, centre, 'north', [
    ['web1', { os: 'RedHat' }, now - hour],
    ['db1', debian, now - 2 * hour],
    ['db2', debian, now - 3 * hour, false],
    ['new1', {}, now - 4 * hour],
  ]);
  await report(t, centre, 'south', [['web9', { os: 'RedHat' }, now - 5 * hour]]);
  return { centre, north };
}

function issue(centre: Centre, facts: string, more: object = {}): Promise<OrderInfo> {
  const request = { sites: ['*'], work, validSeconds: 60, facts, ...more };
  return centre.rpc('site').call<OrderInfo>('order', request);
}

test('an order over facts names its minions, and states what did not match and how old the facts are', async (t) => {
  const { centre, north } = await stage(t);
  const order = await issue(centre, 'G@os:Debian or L@db7,web1');
  t.deepEqual(order.basis, {
    target: 'G@os:Debian or L@db7,web1',
    examined: 5,
    oldestAt: now - 5 * hour,
    latestAt: now - hour,
    matched: 3,
    oldestMatchedAt: now - 3 * hour,
    absent: 1,
    unknown: { count: 1, names: ['new1'] },
    missing: { count: 1, names: ['db7'] },
    sitesWithoutMatch: { count: 1, names: ['south'] },
  });
  t.is(order.counts.waiting, 1);
  const [listed] = await centre.rpc('site').call<readonly OrderInfo[]>('orders');
  t.deepEqual(listed?.basis, order.basis);
  const link = await RawLink.signIn(t, centre, north);
  t.true(await link.isWelcome());
  const frame = decodeFrame(await link.next());
  const { params } = frame.kind === 'request' ? frame : { params: undefined };
  const text = String(Object(params).order);
  t.deepEqual(readOrder(text, north.centreKey, 'north').work, {
    ...work,
    tgt: ['db1', 'db2', 'web1'],
    tgtType: 'list',
  });
  const id = frame.kind === 'request' ? frame.id : 0;
  link.socket.send(encodeFrame({ kind: 'reply', id, value: { state: 'accepted' } }));
});

test('an order over facts without a match is refused, with the age of the facts', async (t) => {
  const { centre } = await stage(t);
  const oldest = new Date(now - 4 * hour).toISOString();
  const error = await t.throwsAsync(issue(centre, 'G@os:Suse', { sites: ['north'] }), {
    code: 'ERR_ORDER_INVALID',
  });
  t.regex(error?.message ?? '', /0 of 4 minions match; facts from .* unknown grains: new1/);
  t.true(error?.message.includes(oldest));
});

test('facts that sites do not report, and targets that are invalid or too expensive, are refused', async (t) => {
  const { centre } = await stage(t);
  const cases = [
    ['G@serialnumber:7', 'ERR_ORDER_INVALID', /do not report the grain serialnumber/],
    ['web1 and I@role:db', 'ERR_ORDER_INVALID', /do not report pillar/],
    ['G@os:Debian and', 'ERR_BAD_TGT', /./],
    [`E@${'(a|b)*'.repeat(600)}c`, /ERR_WORK_LIMIT|ERR_BAD_TGT/, /./],
    ['N@unknown', 'ERR_BAD_TGT', /./],
  ] as const;
  for (const [facts, code, message] of cases) {
    const error = await t.throwsAsync(issue(centre, facts), { message }, facts);
    t.regex(String(Object(error).code), typeof code === 'string' ? new RegExp(code) : code, facts);
  }
  const plan = { kind: 'plan', name: 'x', groups: {} };
  const listed = { ...work, tgt: ['web1'] };
  for (const other of [plan, listed]) {
    await t.throwsAsync(issue(centre, 'G@os:Debian', { work: other }), {
      code: 'ERR_ORDER_INVALID',
      message: /target over facts/,
    });
  }
});

test('a user without a right for a site learns nothing about its facts', async (t) => {
  const rules = [
    {
      name: 'fred tests the south',
      effect: 'allow',
      subject: { user: 'fred' },
      action: 'command',
      resource: { fun: 'site.order', arguments: [{ kwargs: { site: 'south' } }] },
    },
  ] as const;
  const centre = await startCentre(t, {
    acl: { rules },
    eauth: { sharedsecret: 'secret' },
    externalAuth: { sharedsecret: { fred: ['test.version'] } },
  });
  await report(t, centre, 'north', [['db1', debian, now]]);
  await report(t, centre, 'south', [['web9', { os: 'RedHat' }, now - hour]]);
  const login = { eauth: 'sharedsecret', username: 'fred', password: 'secret' };
  const { token } = await centre.server.master.logins.login(login);
  for (const facts of ['G@os:Debian', 'G@os:Suse', 'G@os:Debian and']) {
    const request = issue(centre, facts, { token, sites: ['north'] });
    await t.throwsAsync(request, { code: 'ERR_DENIED' }, facts);
  }
  await t.throwsAsync(issue(centre, 'G@os:Debian', { token }), { message: /0 of 1 minions match/ });
  const order = await issue(centre, 'G@os:* or L@db1', { token, sites: ['south'] });
  t.like(order.basis, { examined: 1, matched: 1, missing: { count: 1, names: ['db1'] } });
});

test('site order --facts prints the age of the facts, and rings are targets', async (t) => {
  const { centre } = await stage(t);
  const openExtension = async (_directory: string, name: string) => centre.rpc(name);
  const order = (...args: readonly string[]) =>
    runCli(['site', 'order', 'job', ...args], { openExtension });
  const { stderr, stdout, code } = await order('ring:all', 'test.ping', '--facts', 'G@os:RedHat');
  t.is(code, 0, stderr);
  t.regex(stdout, /^\d{20}$/m);
  t.regex(stderr, /^2 of 5 minions match; facts from .* to .*; unknown grains: new1$/m);
  const unknown = await order('ring:none', 'test.ping');
  t.regex(unknown.stderr, /unknown ring/);
});

test('the grains of a site of the largest size do not keep the centre busy', async (t) => {
  const packed = packLocal({ os: 'Debian', roles: Array.from({ length: 16_000 }, () => 1) });
  const minions = new Map(
    Array.from({ length: 40 }, (_, number) => {
      const grains = (): WireMap => decodeValue(packed);
      const common = { site: 'north', ms: 1, isPresent: true, hasGrains: true };
      return [`web${number}`, { ...common, bytes: packed.length, grains }] as const;
    }),
  );
  const slices: unknown[] = [];
  const note = (steps: unknown): void => void slices.push(steps);
  workSlices.subscribe(note);
  t.teardown(() => workSlices.unsubscribe(note));
  const { basis } = await resolveFacts({
    target: 'G@os:Debian',
    sites: ['north'],
    minions,
    nodegroups: {},
    budget: new WorkBudget(userWork),
  });
  t.is(basis.matched, 40);
  t.true(slices.length >= 19, `${slices.length} slices`);
});
