import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { type MasterConfig, resolveMasterConfig } from '#config';
import { withBundle } from '#edge';
import { BundleDirectory } from '#edge/bundles/bundle-directory.ts';
import { openFileRoots } from '#salt/file-trees/open-file-roots.ts';
import { checkServerConfig } from '#server';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { siteSection } from '../sections.ts';
import { writeFiles } from './release-stage.ts';

const site = { name: 'paris', centre: 'https://centre.example' };

/** Returns a directory of a site with bundles 1 and 2. Bundle 1 is in use. */
function siteDirectory(t: ExecutionContext): string {
  const directory = path.join(temporaryDirectory(t), 'state', 'site');
  for (const version of ['1', '2']) {
    writeFiles(path.join(directory, 'bundles', version), { 'etc/master': `# ${version}\n` });
  }
  symlinkSync('bundles/1', path.join(directory, 'current'));
  return directory;
}

function configOf(directory: string, more: object = {}): MasterConfig {
  const stateDir = path.dirname(directory);
  const section = siteSection(site);
  return resolveMasterConfig({ stateDir, site: section, ...more });
}

test('a new bundle gets one start of the master before its check', async (t) => {
  const bundles = new BundleDirectory(siteDirectory(t));
  await bundles.switchTo(2, ['web1']);
  t.is((await bundles.recover()).kind, 'pending');
  t.is(await bundles.currentVersion(), 2);
  const next = await bundles.recover();
  t.is(next.kind, 'reverted');
  t.is(await bundles.currentVersion(), 1);
  t.is((await bundles.failure())?.version, 2);
  t.is((await bundles.recover()).kind, 'none');
});

test('a confirmed bundle stays in use, and bundles before the former one are deleted', async (t) => {
  const directory = siteDirectory(t);
  const bundles = new BundleDirectory(directory);
  mkdirSync(path.join(directory, 'bundles', '0.new'));
  await bundles.switchTo(2, []);
  await bundles.commit();
  t.is((await bundles.recover()).kind, 'none');
  t.is(await bundles.currentVersion(), 2);
  t.true(existsSync(bundles.pathOf(1)));
  t.false(existsSync(path.join(directory, 'bundles', '0.new')));
});

// EDGE-C7 of docs/consistency.md
test('a bundle replaces only the options that a release may contain', async (t) => {
  const directory = siteDirectory(t);
  writeFiles(path.join(directory, 'bundles', '1'), {
    'etc/master': [
      "nodegroups: {web: 'web*'}",
      'publish_port: 1',
      'user: root',
      'external_auth: {auto: {evil: [.*]}}',
      'pillar_roots: {base: [/srv/pillar]}',
      'reactor: [{a/b: [/srv/reactor/x.sls, salt://y.sls]}]',
      'saltbridge:',
      '  state_dir: /elsewhere',
      '  bridge: {catalog: [catalog, /srv/catalog], handles: {endpoints: []}}',
      '  acl: {rules: []}',
    ].join('\n'),
  });
  const base = configOf(directory, { timeout: 77, bridge: { runs: { active: 3 } } });
  const { config, problems } = await withBundle(base);
  t.deepEqual(problems, []);
  t.deepEqual(config.nodegroups, { web: 'web*' });
  const current = path.join(directory, 'current');
  t.deepEqual(config.pillarRoots, { base: [`${current}/tree/srv/pillar`] });
  t.deepEqual(config.fileRoots, base.fileRoots);
  t.true(JSON.stringify(config.reactor).includes(`"${current}/tree/srv/reactor/x.sls"`));
  t.true(JSON.stringify(config.reactor).includes('"salt://y.sls"'));
  t.deepEqual(
    { ...config.bridge },
    { catalog: [`${current}/etc/catalog`, `${current}/tree/srv/catalog`], runs: { active: 3 } },
  );
  const own = ['publishPort', 'user', 'externalAuth', 'stateDir', 'timeout'] as const;
  for (const name of own) t.deepEqual(config[name], base[name], name);
});

test('a mistake in a bundle is a problem of the configuration of the site', async (t) => {
  const directory = siteDirectory(t);
  writeFiles(path.join(directory, 'bundles', '1'), { 'etc/master': 'nodegroups: 7\n' });
  const configuration = temporaryDirectory(t);
  writeFiles(configuration, {
    master: `saltbridge: {state_dir: ${path.dirname(directory)}, site: {name: paris, centre: 'https://x'}}\n`,
  });
  const { problems } = await checkServerConfig(configuration);
  t.deepEqual(
    problems.map(({ file, key }) => [path.basename(path.dirname(file)), key]),
    [['bundle:etc', 'nodegroups']],
  );
});

test('a mistake in the approved plans of a bundle is a problem of the site', async (t) => {
  const directory = siteDirectory(t);
  const bundle = path.join(directory, 'bundles', '2');
  writeFiles(bundle, { 'orders.yml': 'plans: {failover: {plan: db.failover}}\n' });
  t.deepEqual((await withBundle(configOf(directory))).problems, [], 'bundle 1 has no plans');
  const { problems } = await withBundle(configOf(directory), bundle);
  t.is(problems.length, 1);
  t.regex(problems[0]?.message ?? '', /bundles\/2: orders\.yml: /);
});

test('the file server serves the tree of a bundle, but not its pillar, keys and options', async (t) => {
  const directory = siteDirectory(t);
  for (const version of ['1', '2']) {
    writeFiles(path.join(directory, 'bundles', version), {
      'etc/master': 'file_roots: {base: [/srv]}\npillar_roots: {base: [/srv/pillar]}\n',
      'tree/srv/app.sls': version,
      [`tree/srv/only-${version}.sls`]: version,
      'tree/srv/pillar/secret.sls': 'secret',
    });
  }
  const { config } = await withBundle(configOf(directory));
  const wide = { ...config, fileRoots: { ...config.fileRoots, all: [path.dirname(directory)] } };
  const roots = await openFileRoots(wide);
  t.teardown(() => roots.close());
  const bundles = new BundleDirectory(directory);
  for (const version of ['1', '2']) {
    const lists = await roots.lists('base');
    t.deepEqual([...lists.files].sort(), ['app.sls', `only-${version}.sls`]);
    t.truthy(await roots.find('app.sls', 'base'));
    t.is(await roots.find('pillar/secret.sls', 'base'), undefined);
    t.is(await roots.find('site/current/etc/master', 'all'), undefined);
    t.is(await roots.find('site/identity.json', 'all'), undefined);
    if (version === '1') {
      await bundles.switchTo(2, []);
      await roots.refresh?.();
    }
  }
});
