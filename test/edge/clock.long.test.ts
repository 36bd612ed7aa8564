/** Sites whose clock is wrong, and sites that restart while their centre is away. */

import test from 'ava';
import type { OrderReport } from '#edge';
import { TcpProxy } from '../helpers/tcp-proxy.ts';
import {
  eventually,
  siteInfo,
  siteStatus,
  startCentre,
  startMaster,
  startSite,
} from './edge-stage.ts';
import { ended, issue } from './order-stage.ts';
import { siteSection, testsOfCentre } from './sections.ts';

const dayMs = 86_400_000;

interface SiteMinion {
  readonly minion: string;
}

for (const [title, offsetMs] of [
  ['ahead', dayMs],
  ['behind', -dayMs],
] as const) {
  // EDGE-C12 of docs/consistency.md
  test(`a site whose clock is a day ${title} connects, reports the difference and sends its log`, async (t) => {
    const centre = await startCentre(t);
    const site = await startSite(t, centre, 'north', {
      now: () => Date.now() + offsetMs,
      site: { events: ['app/*'], alarms: ['app/alarm'] },
    });
    await site.server.master.events.fire('app/alarm', {});
    await site.server.master.events.fire('app/event', {});
    await site.server.master.events.fire('salt/minion/web1/start', {});
    await eventually(async () => {
      const { log } = await siteInfo(centre, 'north');
      const minions = await Array.fromAsync(centre.rpc('site').stream<SiteMinion>('minions'));
      // The facts of the minion are not the only entry of their class.
      const hasFacts = minions.length > 0 || (log.fact?.refused ?? 0) > 0;
      return log.alarm?.sequence === 1 && hasFacts;
    });
    const { log, clockDifferenceMs = 0 } = await siteInfo(centre, 'north');
    t.true(Math.abs(clockDifferenceMs - offsetMs) < 20_000);
    const own = (await siteStatus(site)).clockDifferenceMs ?? 0;
    t.true(Math.abs(own + offsetMs) < 20_000);
    const known = await Array.fromAsync(centre.rpc('site').stream<SiteMinion>('minions'));
    // Facts from the future are refused. Facts from the past are accepted with their time.
    t.is(known.length, offsetMs > 0 ? 0 : 1);
    t.is((log.fact?.refused ?? 0) > 0, offsetMs > 0);
    t.is(log.alarm?.refused, 0);
  });
}

// EDGE-C3 of docs/consistency.md
test('entries that waited at a restart of the site arrive once and in order', async (t) => {
  const centre = await startCentre(t);
  const proxy = await TcpProxy.start(centre.port);
  t.teardown(() => proxy.close());
  const url = `http://127.0.0.1:${proxy.port}`;
  const section = { events: ['app/*'] };
  const numbers: unknown[] = [];
  const end = new AbortController();
  t.teardown(() => end.abort());
  const events = await centre.server.master.events.subscribe({}, end.signal);
  void (async () => {
    for await (const { tag, data } of events) {
      if (tag.startsWith('saltbridge/site/north/app/')) numbers.push(data.number);
    }
  })();
  const first = await startSite(t, centre, 'north', { site: section }, url);
  await eventually(async () => (await siteStatus(first)).isConnected);
  proxy.cut();
  for (let number = 0; number < 50; number += 1) {
    await first.server.master.events.fire('app/number', { number });
  }
  await eventually(async () => (await siteStatus(first)).log.return.entries >= 50);
  await first.server.close();
  const site = siteSection({ name: 'north', centre: url, ...section });
  const second = await startMaster(t, { site }, first.directory);
  for (let number = 50; number < 100; number += 1) {
    await second.server.master.events.fire('app/number', { number });
  }
  proxy.mend();
  await eventually(() => numbers.length >= 100, 'the arrival of all entries');
  t.deepEqual(
    numbers,
    Array.from({ length: 100 }, (_, number) => number),
  );
});

test('a site accepts orders again when the clock of its centre was a year ahead and is corrected', async (t) => {
  let aheadMs = 365 * dayMs;
  const centre = await startCentre(t, { now: () => Date.now() + aheadMs });
  const proxy = await TcpProxy.start(centre.port);
  t.teardown(() => proxy.close());
  const options = { acl: testsOfCentre, timeoutSeconds: 1, gatherJobTimeoutSeconds: 1 };
  const site = await startSite(t, centre, 'north', options, `http://127.0.0.1:${proxy.port}`);
  await eventually(async () => (await siteStatus(site)).isConnected);
  t.true((await siteStatus(site)).timeFloor > Date.now() + 364 * dayMs);
  const stateOf = async (): Promise<OrderReport['sites'][number] | undefined> => {
    const work = { kind: 'job', tgt: 'nobody', fun: 'test.ping' } as const;
    const { sites } = await ended(centre, await issue(centre, ['north'], work));
    return sites[0];
  };
  aheadMs = 0;
  const refused = await stateOf();
  t.is(refused?.state, 'refused');
  t.regex(refused?.reason ?? '', /restart the master of the site/);
  proxy.close();
  await eventually(async () => !(await siteStatus(site)).isConnected);
  proxy.resume();
  await eventually(async () => (await siteStatus(site)).isConnected);
  t.true((await siteStatus(site)).timeFloor < Date.now() + dayMs);
  t.regex((await stateOf())?.reason ?? '', /matches no minion/);
});
