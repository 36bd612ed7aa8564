import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { loadMasterConfig } from '../../master/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { runCli } from './run-cli.ts';

/** A site whose paths all lie below one directory. */
function site(t: ExecutionContext, yaml: string): { readonly root: string; readonly etc: string } {
  const root = temporaryDirectory(t);
  const etc = path.join(root, 'etc');
  mkdirSync(etc);
  const trees = 'file_roots: {}\npillar_roots: {}\n';
  writeFileSync(path.join(etc, 'master'), `root_dir: ${root}\n${trees}${yaml}`);
  return { root, etc };
}

const used = `timeout: 7
master_tops: {cobbler: {}}
worker_threads: 4
reactor:
  - 'my/deploy/*': [/srv/reactor/deploy.sls]
  - salt/minion/*/start: [/srv/reactor/start.sls]
`;

test('migrate check says what is refused, ignored and honoured, and ends with 1', async (t) => {
  const { root, etc } = site(t, used);
  const { code, stdout } = await runCli(['migrate', 'check', etc]);
  t.is(code, 1);
  const report = stdout.replaceAll(root, '/ROOT');
  for (const part of [
    /^Refused: .*\n\n(?:.*\n)*? {2}master_tops \(\/ROOT\/etc\/master:5\)\n {4}.*\n {4}-> /m,
    /^Ignored: .*\n\n(?:.*\n)*? {2}worker_threads \(\/ROOT\/etc\/master:6\)/m,
    /^Honoured: .*\n\n(?:.*\n)*? {2}timeout \(\/ROOT\/etc\/master:4\)/m,
    /^ {6}- tag: "my\/deploy\/\*"$/m,
    /\d+ honoured, \d+ ignored, \d+ refused\. Nothing was changed\.\n$/,
  ]) {
    t.regex(report, part);
  }
});

test('migrate check ends with 0 where nothing is refused', async (t) => {
  const { etc } = site(t, 'timeout: 7\n');
  const { code, stdout } = await runCli(['migrate', 'check', etc, '--json']);
  t.is(code, 0);
  const { counts, signals } = JSON.parse(stdout);
  t.is(counts.refused, 0);
  t.deepEqual(signals.rules, []);
});

test('migrate check --policy writes a file of its own, and replaces none', async (t) => {
  const { root, etc } = site(t, used);
  const file = path.join(root, 'signals.conf');
  const first = await runCli(['migrate', 'check', etc, '--policy', file]);
  t.false(first.stdout.includes('- tag:'));
  t.regex(readFileSync(file, 'utf8'), /- tag: "my\/deploy\/\*"/);
  const again = await runCli(['migrate', 'check', etc, '--policy', file]);
  t.is(again.code, 73);
});

test('migrate check --policy does not write into what it looks at', async (t) => {
  const { root, etc } = site(t, used);
  mkdirSync(path.join(etc, 'master.d'));
  symlinkSync(path.join(etc, 'master.d'), path.join(root, 'link'));
  for (const file of [
    path.join(etc, 'x'),
    path.join(etc, 'master.d/x'),
    path.join(root, 'link/x'),
  ]) {
    const { code, stdout } = await runCli(['migrate', 'check', etc, '--policy', file]);
    t.is(code, 64, file);
    t.is(stdout, '');
    t.false(existsSync(file));
  }
});

test('names from files cannot steer a terminal', async (t) => {
  const { etc } = site(t, '"evil\\e[2J": 1\nreactor: [{"my\\u202etag": [x]}]\n');
  const { stdout } = await runCli(['migrate', 'check', etc]);
  t.false(stdout.includes('\x1b'));
  t.false(stdout.includes('\u202e'));
  t.true(stdout.includes('evil\\x1b[2J'));
});

test('migrate check --write writes one file for master.d, 0600, and replaces none', async (t) => {
  const { root, etc } = site(t, '');
  const sls = path.join(root, 'start.sls');
  writeFileSync(
    sls,
    "go:\n  local.state.apply:\n    - tgt: 'web*'\nx:\n  local.test.ping:\n    - tgt: {{ data.id }}\n",
  );
  writeFileSync(path.join(etc, 'master'), `file_roots: {}\nreactor: [{'my/tag': [${sls}]}]\n`);
  mkdirSync(path.join(etc, 'master.d'));
  const file = path.join(etc, 'master.d/policy.conf');
  const first = await runCli(['migrate', 'check', etc, '--write', file]);
  t.regex(first.stdout, /takes its target from a template/);
  t.is(statSync(file).mode & 0o777, 0o600);
  const text = readFileSync(file, 'utf8');
  t.regex(text, /^# not derivable: .*start\.sls: x: takes its target from a template$/m);
  t.regex(text, /^ {6}- tag: "my\/tag"$/m);
  const { config } = await loadMasterConfig(etc);
  t.like(config.acl.rules, [
    {
      subject: { service: `reaction:${sls}` },
      action: 'publish',
      resource: { fun: ['state.apply'], within: 'web*' },
    },
  ]);
  t.is((await runCli(['migrate', 'check', etc, '--write', file])).code, 73);
  t.is(readFileSync(file, 'utf8'), text);
});
