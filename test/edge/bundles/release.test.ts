import { readFileSync } from 'node:fs';
import test from 'ava';
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
