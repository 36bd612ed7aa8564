/** Statements that were signed and published while the clock of the centre was ahead. */

import test from 'ava';
import type { StatementInfo } from '#edge';
import { TcpProxy } from '../../helpers/tcp-proxy.ts';
import { initKeys } from '../bundles/release-stage.ts';
import { eventually, siteInfo, siteStatus, startCentre, startSite } from '../edge-stage.ts';
import { offerOf, publishStatement, statementOf } from './rehoming-stage.ts';

const dayMs = 86_400_000;

test('a site accepts statements again when the clock of its centre was ahead and is corrected', async (t) => {
  let aheadMs = 30 * dayMs;
  const now = (): number => Date.now() + aheadMs;
  const centre = await startCentre(t, { now });
  const keys = await initKeys(centre, 'centre-1');
  const proxy = await TcpProxy.start(centre.port);
  t.teardown(() => proxy.close());
  const site = await startSite(t, centre, 'north', {}, `http://127.0.0.1:${proxy.port}`);
  await eventually(async () => (await siteStatus(site)).isConnected);
  const offer = await offerOf(centre, ['http://127.0.0.1:9']);
  const sign = (issuedAt: number): string =>
    statementOf(offer, keys.root, {
      issuedAt,
      expiresAt: issuedAt + 100 * dayMs,
      afterSeconds: 3600,
    });
  const held = (): Promise<void> =>
    eventually(
      async () => (await siteInfo(centre, 'north')).statement?.state === 'held',
      'the reply',
    );
  const expired = { code: 'ERR_REHOME_EXPIRED', message: /correct the clock of the machine/ };
  await t.throwsAsync(publishStatement(centre, sign(now() + 2 * 3_600_000)), expired);
  await publishStatement(centre, sign(now()));
  await held();
  aheadMs = 0;
  proxy.close();
  await eventually(async () => !(await siteStatus(site)).isConnected);
  proxy.resume();
  await eventually(async () => (await siteStatus(site)).timeFloor < Date.now() + dayMs);
  const issuedAt = now();
  await publishStatement(centre, sign(issuedAt));
  await held();
  t.is((await siteInfo(centre, 'north')).statement?.issuedAt, issuedAt);
  const statements = await centre.rpc('site').call<readonly StatementInfo[]>('rehome.statements');
  t.deepEqual(
    statements.map((it) => it.issuedAt),
    [issuedAt],
  );
});
