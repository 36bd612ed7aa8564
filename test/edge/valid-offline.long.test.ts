/** The end of the authority of a centre over a site that is away. */

import test, { type ExecutionContext } from 'ava';
import type { OrderInfo, OrderReport, OrderWork, ReleaseState } from '#edge';
import { SiteIdentityFile } from '#edge/identity/site-identity.ts';
import { decodeFrame } from '#edge/link/frames.ts';
import type { LinkState } from '#edge/link/link.ts';
import { CentreClock } from '#edge/orders/centre-clock.ts';
import { receivedOrderRow } from '#edge/orders/order-rows.ts';
import { validOffline } from '#edge/orders/valid-offline.ts';
import type { MasterExtension } from '#master';
import { TcpProxy } from '../helpers/tcp-proxy.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { initKeys, publish, writeFiles } from './bundles/release-stage.ts';
import { memoryRows } from './bundles/tuf-stage.ts';
import { eventually, siteStatus, startCentre, startMaster, startSite } from './edge-stage.ts';
import { RawLink } from './raw-site.ts';
import { siteSection, sitesSection, testsOfCentre } from './sections.ts';

const hour = 3_600_000;

const work: OrderWork = { kind: 'job', tgt: 'nobody', fun: 'test.ping' };

/**
 * Gives a site an order, stops the site before it runs the order, and starts the site without its
 * centre two hours later.
 * @returns the state of the order at the centre after the site is back
 */
async function runLater(
  t: ExecutionContext,
  validOfflineSeconds: number,
  isStarted: boolean,
): Promise<OrderReport['sites'][number] | undefined> {
  const centre = await startCentre(t);
  const proxy = await TcpProxy.start(centre.port);
  t.teardown(() => proxy.close());
  const url = `http://127.0.0.1:${proxy.port}`;
  const section = { validOfflineSeconds };
  const usual = { acl: testsOfCentre, timeoutSeconds: 1, gatherJobTimeoutSeconds: 1 };
  const first = await startSite(t, centre, 'north', { ...usual, site: section }, url);
  await eventually(async () => (await siteStatus(first)).isConnected);
  // The site stores the time of its last contact when it receives an order.
  const known = await centre.rpc('site').call<OrderInfo>('order', { sites: ['north'], work });
  const stateOf = async (id: string) =>
    (await centre.rpc('site').call<OrderReport>('result', { id })).sites[0];
  await eventually(async () => (await stateOf(known.id))?.state !== 'waiting');
  await first.server.close();
  const { id } = await centre.rpc('site').call<OrderInfo>('order', { sites: ['north'], work });
  const identity = await new SiteIdentityFile(`${first.stateDir}/site`).read();
  if (identity === undefined) throw new Error('the site has not joined');
  const link = await RawLink.signIn(t, centre, identity);
  t.true(await link.isWelcome());
  const frame = decodeFrame(await link.next());
  const text = String(Object(frame.kind === 'request' ? frame.params : {}).order);
  link.socket.terminate();
  proxy.close();
  const received: MasterExtension = {
    name: 'received',
    namespace: 'edge',
    open: async ({ state }) => {
      const validUntil = Date.now() + 24 * hour;
      const row = { text, isReported: false, isStarted, validUntil, jid: id };
      const value = receivedOrderRow.encode(row);
      await state.write([{ op: 'put', key: ['order', id], value }]);
      return {};
    },
  };
  const site = siteSection({ name: 'north', centre: url, ...section });
  const later = { ...usual, site, now: () => Date.now() + 2 * hour, extensions: [received] };
  const second = await startMaster(t, later, first.directory);
  const log = async (): Promise<number> => (await siteStatus(second)).log.signal.entries;
  await eventually(async () => (await log()) > 0, 'the result');
  proxy.resume();
  await eventually(async () => !['waiting', 'running'].includes((await stateOf(id))?.state ?? ''));
  return stateOf(id);
}

// EDGE-C11 of docs/consistency.md
test('a site that was away for longer than valid_offline does not start an order', async (t) => {
  const result = await runLater(t, 3600, false);
  t.is(result?.state, 'expired');
  t.regex(result?.reason ?? '', /valid_offline/);
});

test('a site that was away for less than valid_offline starts an order', async (t) => {
  const result = await runLater(t, 10_800, false);
  t.is(result?.state, 'failed');
  t.regex(result?.reason ?? '', /matches no minion/);
});

test('an order that has started runs to its end, also after valid_offline', async (t) => {
  const result = await runLater(t, 3600, true);
  t.is(result?.state, 'failed');
});

test('a release states valid_offline, and a site can only shorten it', async (t) => {
  t.is(validOffline({}), 86_400);
  t.is(validOffline({}, 604_800), 604_800);
  t.is(validOffline({ validOfflineSeconds: 60 }, 604_800), 60);
  t.is(validOffline({ validOfflineSeconds: 604_800 }), 86_400);
  t.is(validOffline({ validOfflineSeconds: 604_800 }, 3600), 3600);
  const source = temporaryDirectory(t);
  writeFiles(source, { master: 'file_ignore_glob: []\n' });
  const sites = sitesSection({ source, validOfflineSeconds: 7200 });
  const centre = await startCentre(t, { sites });
  const keys = await initKeys(centre);
  const site = await startSite(t, centre, 'north');
  await publish(centre, keys);
  await eventually(async () => {
    const [state] = await centre.rpc('site').call<readonly ReleaseState[]>('releases.list');
    return state?.installed === 1;
  });
  t.is((await siteStatus(site)).validOfflineSeconds, 7200);
});

// EDGE-C11 of docs/consistency.md
test('a former centre whose clock was ahead does not lengthen valid_offline', async (t) => {
  const dayMs = 86_400_000;
  let now = 100 * dayMs;
  let aheadMs = 10 * dayMs;
  let link: LinkState = { isConnected: true, lastContactAt: now, clockDifferenceMs: aheadMs };
  const state = memoryRows({ now: 0 });
  const context = {
    host: { now: () => now, state },
    link: {
      get state(): LinkState {
        return link;
      },
    },
    validOfflineSeconds: () => 3600,
    // The site never returns to a time before the greatest time that a centre has signed.
    timeFloor: () => 110 * dayMs,
  };
  const clock = await CentreClock.open(context);
  await clock.save();
  t.true(clock.isValid);
  // The clock of the next centre is right.
  now += 60_000;
  aheadMs = 0;
  link = { isConnected: true, lastContactAt: now, clockDifferenceMs: aheadMs };
  await clock.save();
  link = { ...link, isConnected: false };
  now += 3_500_000;
  t.true(clock.isValid);
  now += 200_000;
  t.false(clock.isValid);
  link = { isConnected: false, lastContactAt: undefined, clockDifferenceMs: undefined };
  t.false((await CentreClock.open(context)).isValid, 'after a restart');
  now -= 200_000;
  t.true((await CentreClock.open(context)).isValid, 'the contact with the next centre is stored');
});
