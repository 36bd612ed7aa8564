/** A site that requests updates to releases without end. */

import test from 'ava';
import { edgeLimits } from '#edge/limits.ts';
import { decodeFrame, type Frame } from '#edge/link/frames.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startCentre } from '../edge-stage.ts';
import { joinRaw, RawLink } from '../raw-site.ts';
import { sitesSection } from '../sections.ts';
import { initKeys, publish, writeFiles } from './release-stage.ts';

test('a site that requests many updates gets them later, and no more with its reports', async (t) => {
  const source = temporaryDirectory(t);
  const now = Date.now();
  const centre = await startCentre(t, { now: () => now, sites: sitesSection({ source }) });
  const keys = await initKeys(centre);
  writeFiles(source, { master: 'pillar_opts: true\n' });
  await publish(centre, keys);
  writeFiles(source, { master: 'pillar_opts: false\n' });
  await publish(centre, keys);
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  const contentOf = (frame: Frame) => Object(frame.kind === 'reply' ? frame.value : undefined);
  const { bytes } = contentOf(await link.ask('bundle.metadata', { name: '1.targets.json' }));
  const [target] = Object.values(JSON.parse(Buffer.from(bytes).toString('utf8')).signed.targets);
  const have = { known: [1, 2, 2], from: Buffer.from(Object(target).hashes.sha256, 'hex') };
  const report = { version: 1, saltbridge: '1', have };
  const { burst = 0 } = edgeLimits.releaseUpdates.rate ?? {};
  let updates = 0;
  for (let count = 0; count < 2 * burst; count += 1) {
    const { wanted } = contentOf(await link.ask('bundle.report', report));
    t.is(wanted.version, 2);
    if (wanted.update !== undefined) updates += 1;
  }
  t.is(updates, burst);
  // These requests wait, and other requests of the site do not.
  const first = 100_000;
  for (let id = first; id < first + 30; id += 1) {
    link.sendRequest(id, 'bundle.update', { version: 2, ...have });
  }
  let replies = 0;
  for (let id = first + 30; id < first + 330; id += 1) {
    link.sendRequest(id, 'bundle.metadata', { name: 'timestamp.json' });
    for (let reply = -1; reply !== id; ) {
      reply = decodeFrame(await link.next()).id;
      if (reply < first + 30) replies += 1;
    }
  }
  t.true(replies < 30, `${replies} replies`);
});
