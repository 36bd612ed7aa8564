import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import test from 'ava';
import type { ReleaseState } from '#edge';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { eventually, isServing, startCentre, startSite } from '../edge-stage.ts';
import { sitesSection } from '../sections.ts';
import { initKeys, publish, writeFiles } from './release-stage.ts';

test('a release reaches a site, and replaces files, pillar and policy', async (t) => {
  const source = temporaryDirectory(t);
  const trees = temporaryDirectory(t);
  writeFiles(trees, {
    'states/top.sls': "base:\n  '*':\n    - app\n",
    'states/app.sls': 'one:\n  test.nop\n',
    'pillar/top.sls': "base:\n  '*':\n    - app\n",
    'pillar/app.sls': 'app: one\n',
  });
  const options = [
    'file_roots:',
    `  base: [${trees}/states]`,
    'pillar_roots:',
    `  base: [${trees}/pillar]`,
    'nodegroups:',
    "  web: 'web*'",
  ];
  writeFiles(source, { master: options.join('\n') });
  const centre = await startCentre(t, { sites: sitesSection({ source }) });
  const keys = await initKeys(centre);
  const site = await startSite(t, centre, 'paris');
  await publish(centre, keys);
  const current = `${site.stateDir}/site/current`;
  await eventually(
    () => site.server.master.config.fileRoots.base?.[0] === `${current}/tree${trees}/states`,
    'the first release',
  );
  await eventually(async () => {
    const [release] = await centre.rpc('site').call<readonly { state: string }[]>('releases.list');
    return release?.state === 'done';
  }, 'the release is done');
  t.is(readFileSync(`${current}/tree${trees}/pillar/app.sls`, 'utf8'), 'app: one\n');
  await eventually(() => isServing(site), 'the site serves with the first release');
  const pillar = await site.server.master.pillar.show({ minion: 'web1' });
  t.is(pillar instanceof Map ? pillar.get('app') : pillar.app, 'one');
  const { master } = site.server;
  writeFiles(trees, { 'pillar/app.sls': 'app: two\n' });
  writeFiles(source, { master: `${options.join('\n')}\n  db: 'db*'` });
  await publish(centre, keys);
  await eventually(() => 'db' in site.server.master.config.nodegroups, 'the second release');
  t.is(site.server.master, master, 'a reload is sufficient');
  const next = await site.server.master.pillar.show({ minion: 'web1' });
  t.is(next instanceof Map ? next.get('app') : next.app, 'two');
});

test('a site reads a pack again after a lost request, although its connection lasts', async (t) => {
  const source = temporaryDirectory(t);
  const trees = temporaryDirectory(t);
  writeFiles(trees, { 'states/image': randomBytes(100_000).toString('base64') });
  writeFiles(source, { master: `file_roots:\n  base: [${trees}/states]\n` });
  const centre = await startCentre(t, { sites: sitesSection({ source }) });
  let losses = 2;
  const proxy = createServer((client) => {
    client.on('error', () => {});
    client.once('data', (first) => {
      const isPack = first.toString('latin1').startsWith('GET /site/v1/packs/');
      if (isPack && losses > 0) {
        losses -= 1;
        client.destroy();
        return;
      }
      const upstream = connect(centre.port, '127.0.0.1');
      upstream.on('error', () => client.destroy());
      upstream.write(first);
      client.pipe(upstream).pipe(client);
    });
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => proxy.close());
  const address = proxy.address();
  const port = typeof address === 'object' ? address?.port : 0;
  const keys = await initKeys(centre);
  await startSite(t, centre, 'paris', {}, `http://127.0.0.1:${port}`);
  await publish(centre, keys);
  await eventually(async () => {
    const [release] = await centre.rpc('site').call<readonly ReleaseState[]>('releases.list');
    if (release?.state !== 'done') return false;
    t.deepEqual(release.failed, [], 'a lost request is no failure of the release');
    return true;
  }, 'the release is done');
  t.is(losses, 0);
});
