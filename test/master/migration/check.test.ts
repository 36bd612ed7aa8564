/** What the report says of configurations made up for it. */
import { generateKeyPairSync } from 'node:crypto';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { checkMigration, type MigrationReport } from '../../../ops/index.ts';
import { configDirectory } from '../config/files.ts';

function publicPem(modulusLength: number): string {
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength });
  return String(publicKey.export({ type: 'spki', format: 'pem' }));
}

/** A site below one directory, with `etc/master` as given; `ROOT` stands for the directory. */
function site(t: ExecutionContext, files: Readonly<Record<string, string>>): string {
  const root = configDirectory(t, { 'etc/.keep': '', ...files });
  const main = path.join(root, 'etc/master');
  const given = files['etc/master'] ?? '';
  const paths = ['root_dir: ROOT', 'pki_dir: ROOT/pki', 'cachedir: ROOT/cache'].join('\n');
  const trees = given.includes('file_roots:') ? '' : 'file_roots: {}\npillar_roots: {}\n';
  writeFileSync(main, `${paths}\n${trees}${given}`.replaceAll('ROOT', root));
  return root;
}

async function check(root: string): Promise<MigrationReport> {
  return checkMigration(path.join(root, 'etc'));
}

/** `[outcome, line, meaning]` of what is said of a name. */
function said({ findings }: MigrationReport, name: string): readonly [string, string] | undefined {
  const finding = findings.find((it) => it.name === name);
  return finding && [finding.outcome, `${path.basename(finding.file)}:${finding.line}`];
}

/** Every file and directory below one, with what would change. */
function snapshot(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort()
    .map((file) => {
      const { mode, mtimeMs, size, isFile } = {
        ...statSync(file),
        isFile: statSync(file).isFile(),
      };
      return `${file} ${mode} ${mtimeMs} ${size} ${isFile ? readFileSync(file, 'base64') : ''}`;
    });
}

test('expressions that permit less than in Salt are told with their line', async (t) => {
  const report = await check(site(t, { 'etc/master': "peer:\n  '.*':\n    - test.ping\n" }));
  const [option, narrowed] = report.findings.filter(({ name }) => name.startsWith('peer'));
  t.like(option, { outcome: 'honoured', meaning: 'The option is served.' });
  t.is(narrowed?.outcome, 'honoured');
  t.regex(narrowed?.meaning ?? '', /^It permits less than in Salt\. peer: test\.ping must mean/);
  t.is(narrowed?.line, (option?.line ?? 0) + 1);
});

test('permissions that are refused are told as such, and nothing more of them', async (t) => {
  const report = await check(site(t, { 'etc/master': "peer:\n  '.*':\n    - '(?=a)'\n" }));
  const found = report.findings.filter(({ name }) => name.startsWith('peer'));
  t.deepEqual(
    found.map(({ outcome }) => outcome),
    ['refused'],
  );
});

test('options are honoured, ignored or refused, each with its file and line', async (t) => {
  const report = await check(
    site(t, {
      'etc/master': 'timeout: 7\nworker_threads: 8\nno_such_option: 1\n',
      'etc/master.d/a.conf': '\nschedule: {x: {function: test.ping}}\n',
    }),
  );
  t.deepEqual(said(report, 'timeout'), ['honoured', 'master:6']);
  t.deepEqual(said(report, 'worker_threads'), ['ignored', 'master:7']);
  t.deepEqual(said(report, 'no_such_option'), ['ignored', 'master:8']);
  t.deepEqual(said(report, 'schedule'), ['refused', 'a.conf:2']);
  t.true(report.findings.every((it) => it.outcome !== 'refused' || it.wayOut !== ''));
});

test('the modules that an option brings into use are named, and no values', async (t) => {
  const yaml = [
    'ext_pillar: [{cmd_yaml: secret-command}, {git: [main https://secret]}]',
    'engines: [{slack: {token: secret}}, stalekey]',
    'master_job_cache: mysql',
    'event_return: [mysql, elastic]',
  ];
  const report = await check(site(t, { 'etc/master': yaml.join('\n') }));
  const meanings = report.findings.map(({ meaning }) => meaning).join(' ');
  for (const names of ['cmd_yaml, git', 'slack, stalekey', 'mysql', 'mysql, elastic']) {
    t.true(meanings.includes(`In use: ${names}.`), names);
  }
  t.notRegex(JSON.stringify(report.findings), /secret/);
});

test('external pillar is honoured where all of its modules are', async (t) => {
  const reportOf = (ext: string) =>
    check(site(t, { 'etc/master': `ext_pillar: [{minion_files: /srv/a}${ext}]\n` }));
  t.is(said(await reportOf(''), 'ext_pillar')?.[0], 'honoured');
  t.is(said(await reportOf(', {git: [a]}'), 'ext_pillar')?.[0], 'refused');
});

test('a part that is switched off, or what Salt does anyway, is not refused', async (t) => {
  const yaml = 'engines: []\nmaster_job_cache: local_cache\nschedule:\n';
  const report = await check(site(t, { 'etc/master': yaml }));
  for (const name of ['engines', 'master_job_cache', 'schedule']) {
    t.is(said(report, name)?.[0], 'ignored', name);
  }
});

test('every option that keeps the master from starting is found, not the first alone', async (t) => {
  const report = await check(
    site(t, {
      'etc/master':
        'timeout: long\nret_port: 99999\nkeysize: 2048\nsaltbridge: {limits: {burst: x}}\n',
    }),
  );
  t.deepEqual(said(report, 'timeout'), ['refused', 'master:6']);
  t.deepEqual(said(report, 'ret_port'), ['refused', 'master:7']);
  t.deepEqual(said(report, 'saltbridge:limits:burst'), ['refused', 'master:9']);
  t.deepEqual(said(report, 'keysize'), ['honoured', 'master:8']);
});

test('a file that is not YAML is a finding, and the others are read', async (t) => {
  const report = await check(
    site(t, {
      'etc/master': 'timeout: 7\n',
      'etc/master.d/a.conf': 'a: 1\na: 2\n',
      'etc/master.d/b.conf': 'include: other.conf\nkeysize: 4096\n',
      'etc/master.d/other.conf': 'x: [\n',
    }),
  );
  const broken = report.findings.filter(
    ({ kind, outcome }) => kind === 'file' && outcome === 'refused',
  );
  t.deepEqual([...new Set(broken.map(({ file }) => path.basename(file)))].sort(), [
    'a.conf',
    'other.conf',
  ]);
  t.deepEqual(said(report, 'keysize'), ['honoured', 'b.conf:2']);
});

test('a directory that does not exist is a finding', async (t) => {
  const report = await checkMigration(path.join(site(t, {}), 'nowhere'));
  t.true(report.findings.some(({ name, kind }) => kind === 'file' && name === 'unreadable'));
});

test('renderers of pillar are refused where they are no Jinja, YAML or JSON', async (t) => {
  const report = await check(
    site(t, {
      'etc/master': 'file_roots: {base: [ROOT/salt]}\npillar_roots: {base: [ROOT/pillar]}\n',
      'salt/web/init.sls': '#!py\ndef run(): return {}\n',
      'salt/script.sls': '#!/bin/sh\n',
      'salt/plain.sls': 'x: y\n',
      'pillar/a.sls': '#!yaml|gpg\na: b\n',
      'pillar/b/c.sls': '#!yaml | gpg\r\na: b\n',
      'pillar/d.sls': '#!jinja|yaml\na: b\n',
      'pillar/e.sls': '#!mako|yaml\na: b\n',
    }),
  );
  t.deepEqual(said(report, '#!py'), ['honoured', 'init.sls:1']);
  t.deepEqual(said(report, '#!yaml|gpg'), ['refused', 'a.sls:1']);
  t.deepEqual(said(report, '#!jinja|yaml'), ['honoured', 'd.sls:1']);
  t.deepEqual(said(report, '#!mako|yaml'), ['refused', 'e.sls:1']);
  t.is(report.findings.filter(({ name }) => name.startsWith('#!')).length, 4);
  const gpg = report.findings.find(({ name }) => name === '#!yaml|gpg');
  t.regex(gpg?.meaning ?? '', /2 files.*c\.sls/);
  t.regex(gpg?.wayOut ?? '', /decrypt/);
});

test('a tree with a link to itself is walked once', async (t) => {
  const root = site(t, {
    'etc/master': 'file_roots: {base: [ROOT/salt]}\npillar_roots: {}\n',
    'salt/a.sls': '#!mako\n',
  });
  symlinkSync('.', path.join(root, 'salt/again'));
  symlinkSync('loop', path.join(root, 'salt/loop'));
  const report = await check(root);
  t.is(
    report.findings.find(({ name }) => name === '#!mako')?.meaning,
    'Minions render states themselves.',
  );
});

test("Python code is the minions' or the master's", async (t) => {
  const report = await check(
    site(t, {
      'etc/master': 'file_roots: {base: [ROOT/salt]}\npillar_roots: {}\nmodule_dirs: [ROOT/more]\n',
      'salt/_modules/mine.py': '',
      'salt/_runners/theirs.py': '',
      'salt/_pillar/__init__.py': '',
      'salt/_states/readme.txt': '',
      'cache/extmods/wheel/keys.py': '',
      'more/runners/other.py': '',
    }),
  );
  t.is(said(report, '_modules')?.[0], 'honoured');
  t.is(said(report, '_runners')?.[0], 'refused');
  t.is(said(report, 'wheel')?.[0], 'refused');
  t.is(said(report, 'runners')?.[0], 'refused');
  t.is(said(report, '_pillar'), undefined);
  t.is(said(report, '_states'), undefined);
});

test('salt-cloud, a roster and proxies are named where their files are', async (t) => {
  const report = await check(
    site(t, {
      'etc/cloud.providers.d/aws.conf': 'x: y\n',
      'etc/roster': 'x: y\n',
      'etc/proxy': 'x: y\n',
    }),
  );
  t.deepEqual(said(report, 'salt-cloud'), ['ignored', 'cloud.providers.d:0']);
  t.deepEqual(said(report, 'roster'), ['ignored', 'roster:0']);
  t.deepEqual(said(report, 'proxy minions'), ['honoured', 'proxy:0']);
});

test('keys are counted by state, and those that cannot go on are named', async (t) => {
  const good = publicPem(2048);
  const report = await check(
    site(t, {
      'pki/minions/web1': good,
      'pki/minions/old1': publicPem(1024),
      'pki/minions/cut1': good.slice(0, 80),
      'pki/minions_pre/new1': good,
      'pki/minions_denied/web1': good,
      'pki/minions_rejected': 'a file in place of the directory',
      'pki/master.pub': good,
    }),
  );
  t.deepEqual(report.keys, { accepted: 3, denied: 1, pending: 1, rejected: 0 });
  t.is(said(report, 'key of old1')?.[0], 'refused');
  t.is(said(report, 'key of cut1')?.[0], 'refused');
  t.is(said(report, 'key of web1'), undefined);
  t.is(said(report, 'denied keys')?.[0], 'honoured');
  t.is(said(report, 'master.pem')?.[0], 'refused');
  t.deepEqual(said(report, 'unreadable'), ['refused', 'minions_rejected:0']);
});

test('ids that no new minion may have are named', async (t) => {
  const files = { 'pki/minions/old*': publicPem(2048), 'pki/minions_pre/a b': publicPem(2048) };
  const report = await check(site(t, files));
  t.deepEqual(said(report, 'id "old*"'), ['honoured', 'old*:0']);
  t.deepEqual(said(report, 'id "a b"'), ['honoured', 'a b:0']);
  const lax = { ...files, 'etc/master': 'saltbridge: {minion_ids: salt}\n' };
  t.is(said(await check(site(t, lax)), 'id "old*"'), undefined);
});

test('nothing of the site is written, made or touched', async (t) => {
  const root = site(t, {
    'etc/master': 'file_roots: {base: [ROOT/salt]}\npillar_roots: {}\nreactor: [{x: [y]}]\n',
    'salt/a.sls': '#!py\n',
    'pki/minions/web1': publicPem(2048),
    'pki/.saltbridge-1.tmp': 'left over',
  });
  mkdirSync(path.join(root, 'pki/minions_pre'));
  const before = snapshot(root);
  await check(root);
  t.deepEqual(snapshot(root), before);
});
