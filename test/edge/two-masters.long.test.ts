/** Two masters of one site over one state directory. One of them is killed. */

import test from 'ava';
import { connectMaster } from '#client';
import { joinSite } from '#edge';
import { createMasterServer } from '#server';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { initKeys, publish, writeFiles } from './bundles/release-stage.ts';
import { createTicket, eventually, siteInfo, startCentre, stateDirOf } from './edge-stage.ts';
import { startProcess } from './master-process.ts';
import { siteSection, sitesSection } from './sections.ts';

test('the second master of a site takes over the site when the first one is killed', async (t) => {
  t.timeout(300_000);
  const source = temporaryDirectory(t);
  writeFiles(source, { master: 'file_ignore_glob: []\n' });
  const centre = await startCentre(t, { sites: sitesSection({ source }) });
  const keys = await initKeys(centre);
  const directory = temporaryDirectory(t);
  const stateDir = stateDirOf(directory);
  const site = siteSection({ name: 'north', centre: centre.url, alarms: ['fire/*'] });
  const { ticket } = await createTicket(centre, 'north');
  await joinSite(ticket, { stateDir, site });
  const options = {
    ...{ rootDir: directory, stateDir, interface: '127.0.0.1', publishPort: 0, requestPort: 0 },
    site,
  };
  const second = await createMasterServer(options);
  const { socket } = second.master.config;
  const fire = (tag: string): Promise<unknown> =>
    connectMaster({ socketPath: socket }).events.fire(tag, {});
  const arrived = async (): Promise<readonly number[]> => {
    const stored = await centre
      .rpc('site')
      .call<readonly { sequence: number; class: string }[]>('entries', { name: 'north' });
    return stored.filter((it) => it.class === 'alarm').map(({ sequence }) => sequence);
  };

  const first = await startProcess(t, options);
  await publish(centre, keys);
  await eventually(async () => (await siteInfo(centre, 'north')).release?.version === 1, 'release');
  for (const number of [1, 2, 3]) await fire(`fire/${number}`);
  await eventually(async () => (await arrived()).length === 3, 'the alarms of the first master');
  const fingerprint = (await siteInfo(centre, 'north')).fingerprint;

  // As long as the first master runs, the second one is refused, and changes nothing.
  await t.throwsAsync(second.start(), { code: 'ERR_STORE_LOCKED' });
  await second.close();
  await fire('fire/4');
  await eventually(async () => (await arrived()).length === 4, 'a further alarm');

  await first.kill();
  const next = await createMasterServer(options);
  t.teardown(() => next.close());
  await next.start();
  await fire('fire/5');
  await eventually(async () => (await arrived()).length === 5, 'the alarm of the second master');
  t.deepEqual((await arrived()).toSorted(), [1, 2, 3, 4, 5]);
  const info = await siteInfo(centre, 'north');
  t.like(info, { state: 'joined', isConnected: true, fingerprint });
  t.is(info.release?.version, 1);
});
