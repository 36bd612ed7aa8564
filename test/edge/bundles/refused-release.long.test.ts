import { mkdtempSync, readdirSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { ReleaseState } from '#edge';
import { runCli } from '../../cli/run-cli.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { pem } from '../../helpers/vectors.ts';
import {
  type Centre,
  eventually,
  isServing,
  type StageMaster,
  startCentre,
  startSite,
} from '../edge-stage.ts';
import { HostProbe } from '../host-probe.ts';
import { sitesSection } from '../sections.ts';
import { initKeys, type OfflineKeys, publish, writeFiles } from './release-stage.ts';

interface Stage {
  readonly source: string;
  readonly trees: string;
  readonly centre: Centre;
  readonly keys: OfflineKeys;
  readonly site: StageMaster;
  readonly probe: HostProbe;
}

async function stage(t: ExecutionContext): Promise<Stage> {
  const [source, trees] = [temporaryDirectory(t), temporaryDirectory(t)];
  writeFiles(trees, { 'pillar/top.sls': "base:\n  '*': [app]\n", 'pillar/app.sls': 'app: one\n' });
  const options = `file_roots: {base: [${trees}]}\npillar_roots: {base: [${trees}/pillar]}\n`;
  writeFiles(source, { master: options });
  const centre = await startCentre(t, { sites: sitesSection({ source }) });
  const keys = await initKeys(centre);
  const probe = new HostProbe();
  const site = await startSite(t, centre, 'paris', { extensions: [probe.extension] });
  return { source, trees, centre, keys, site, probe };
}

async function release({ centre }: Pick<Stage, 'centre'>): Promise<ReleaseState> {
  const [latest] = await centre.rpc('site').call<readonly ReleaseState[]>('releases.list');
  if (latest === undefined) throw new Error('no release');
  return latest;
}

async function reaches(it: Stage, state: string): Promise<ReleaseState> {
  await eventually(async () => (await release(it)).state === state, `release ${state}`);
  await eventually(() => isServing(it.site), 'the site serves');
  return release(it);
}

test('a release that breaks the configuration of a site stops, and the former stays in use', async (t) => {
  const it = await stage(t);
  await publish(it.centre, it.keys);
  await reaches(it, 'done');
  // The catalog is checked by the site, because the centre has no bridge of sites.
  writeFiles(it.source, {
    'master.d/bridge.conf': 'saltbridge: {bridge: {catalog: [catalog]}}\n',
    'catalog/bad.yml': 'reboot: {function: 7}\n',
  });
  await publish(it.centre, it.keys);
  const { failed, installed } = await reaches(it, 'stopped');
  t.is(installed, 0);
  t.is(failed[0]?.site, 'paris');
  t.is(failed[0]?.code, 'ERR_BUNDLE_CHECK');
  const { pillar } = it.site.server.master;
  const shown = await pillar.show({ minion: 'web1' });
  t.is(shown instanceof Map ? shown.get('app') : shown.app, 'one');
  // A corrected catalog is used after the master of the site has started again.
  const former = it.site.server.master;
  writeFiles(it.source, {
    'catalog/bad.yml': [
      'node.ping:',
      '  function: test.ping',
      '  description: Checks a minion.',
    ].join('\n'),
  });
  await publish(it.centre, it.keys);
  const done = await reaches(it, 'done').catch(async () =>
    t.fail(JSON.stringify(await release(it))),
  );
  t.truthy(done);
  t.not(it.site.server.master, former, 'the catalog requires a restart');
});

test('the command line creates keys, releases, rolls back and replaces keys', async (t) => {
  const it = await stage(t);
  const directory = mkdtempSync(path.join(tmpdir(), 'keys-'));
  t.teardown(() => import('node:fs').then(({ rmSync }) => rmSync(directory, { recursive: true })));
  const openExtension = async (): Promise<ReturnType<StageMaster['rpc']>> => it.centre.rpc('site');
  const run = (...args: string[]): ReturnType<typeof runCli> =>
    runCli(['site', ...args], { openExtension });
  const again = await run('keys', 'init', directory);
  t.not(again.code, 0, 'this centre already has keys');
  t.regex(again.stderr, /already has release keys/);
  t.deepEqual(readdirSync(directory), []);
  const { encodeRoleKey } = await import('#edge');
  const files = Object.fromEntries([
    ...it.keys.root.map((key, index) => [
      `root-${index + 1}.json`,
      encodeRoleKey({ role: 'root', centre: 'centre-1', key }),
    ]),
    ['targets.json', encodeRoleKey({ role: 'targets', centre: 'centre-1', key: it.keys.targets })],
  ]);
  writeFiles(directory, files);
  const pushed = await run('push', '--key', `${directory}/targets.json`);
  t.is(pushed.code, 0, pushed.stderr);
  await reaches(it, 'done');
  writeFiles(it.trees, { 'pillar/app.sls': 'app: two\n' });
  t.is((await run('push', '--key', `${directory}/targets.json`)).code, 0);
  await reaches(it, 'done');
  const shown = async (): Promise<unknown> => {
    const pillar = await it.site.server.master.pillar.show({ minion: 'web1' });
    return pillar instanceof Map ? pillar.get('app') : pillar.app;
  };
  t.is(await shown(), 'two');
  const rolledBack = await run('rollback', '--key', `${directory}/targets.json`, '--json');
  t.is(rolledBack.code, 0, rolledBack.stderr);
  await eventually(async () => (await shown()) === 'one', 'the former content');
  // All keys are replaced, one role after the other.
  const fresh = `${directory}/fresh`;
  for (const role of ['targets', 'online', 'root']) {
    const to = role === 'online' ? [] : [`${fresh}-${role}`];
    const rotated = await run('keys', 'rotate', ...to, '--keys', directory, '--role', role);
    t.is(rotated.code, 0, rotated.stderr);
  }
  t.is(statSync(`${fresh}-targets/targets.json`).mode & 0o777, 0o600);
  t.is(statSync(`${fresh}-root`).mode & 0o777, 0o700);
  const refused = await run('push', '--key', `${directory}/targets.json`);
  t.not(refused.code, 0, 'the former key no longer signs');
  const final = await run('push', '--key', `${fresh}-targets/targets.json`);
  t.is(final.code, 0, final.stderr);
  await reaches(it, 'done');
  await eventually(async () => (await shown()) === 'two', 'the release with the new keys');
  const old = await run('keys', 'rotate', `${fresh}-x`, '--keys', directory, '--role', 'targets');
  t.not(old.code, 0, 'the former root keys no longer sign');
  const listed = await run('releases');
  t.regex(listed.stdout, /^5 done ring all: 1 sites/);
});

test('a release that breaks the pillar of a minion is taken back', async (t) => {
  const it = await stage(t);
  const { publicPem } = pem('minion');
  await publish(it.centre, it.keys);
  await reaches(it, 'done');
  writeFiles(it.source, { 'keys/accepted/web1': publicPem });
  await publish(it.centre, it.keys);
  await reaches(it, 'done');
  const accepted = async (): Promise<readonly string[]> =>
    (await it.site.server.master.keys.list({ state: 'accepted' })).map(({ id }) => id);
  t.deepEqual(await accepted(), ['web1'], 'the bundle accepts its keys');
  const { master } = it.site.server;
  // A minion that never sent its grains is no sample.
  writeFiles(it.trees, { 'pillar/app.sls': 'app: {{ grains.os.upper() }}\n' });
  await publish(it.centre, it.keys);
  await reaches(it, 'done');
  writeFiles(it.trees, { 'pillar/app.sls': 'app: one\n' });
  await publish(it.centre, it.keys);
  await reaches(it, 'done');
  await it.probe.keepGrains([{ id: 'web1', grains: { id: 'web1' } }]);
  writeFiles(it.trees, { 'pillar/app.sls': '{{ missing.x.y }}\n' });
  await publish(it.centre, it.keys);
  const { failed } = await reaches(it, 'stopped');
  t.regex(failed[0]?.message ?? '', /pillar of web1/);
  t.is(it.site.server.master, master);
  const shown = await master.pillar.show({ minion: 'web1' });
  t.is(shown instanceof Map ? shown.get('app') : shown.app, 'one');
  // The same release together with options that require a restart.
  const options = `file_roots: {base: [${it.trees}], dev: [${it.trees}]}\n`;
  writeFiles(it.source, { 'master.d/dev.conf': options });
  await publish(it.centre, it.keys);
  t.regex((await reaches(it, 'stopped')).failed[0]?.message ?? '', /pillar of web1/);
  await eventually(() => it.site.server.master.config.fileRoots.dev === undefined, 'the former');
  // A revoked key is deleted.
  writeFiles(it.trees, { 'pillar/app.sls': 'app: three\n' });
  writeFiles(it.source, { 'master.d/dev.conf': '', 'keys/revoked': 'web1\n' });
  await publish(it.centre, it.keys);
  await reaches(it, 'done');
  t.deepEqual(await accepted(), []);
});
