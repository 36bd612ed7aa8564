/** `saltbridge config`, and what every command says of a configuration that cannot be used. */

import path from 'node:path';
import test from 'ava';
import { parse } from '#yaml';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { configDirectory } from '../master/config/files.ts';
import { runCli } from './run-cli.ts';

test('config check prints all mistakes and warnings at once, and ends with 78', async (t) => {
  const directory = configDirectory(t, {
    master: 'publish_port: 99999\nauto_accept: perhaps\nworker_threads: 9\n',
  });
  for (const argv of [[directory], ['-c', directory]]) {
    const { code, stdout } = await runCli(['config', 'check', ...argv]);
    t.is(code, 78);
    t.deepEqual(stdout.replaceAll(directory, 'DIR').trimEnd().split('\n'), [
      'error: DIR/master:1: publish_port: 99999 is over 65535, expected a whole number from 0 to 65535',
      'error: DIR/master:2: auto_accept: found a text, expected true or false',
      "warning: DIR/master:3: worker_threads has no effect: one process does the work of all of salt-master's; there is nothing to tune",
      'DIR: 2 mistakes, 1 warning in 1 file',
    ]);
  }
});

test('config check prints mistakes in the order of files and lines', async (t) => {
  const directory = configDirectory(t, {
    master:
      'publish_port: 99999\nauto_accept: perhaps\nsaltbridge:\n  stat_dir: x\ntimout: 1\ntimeot: 2\n',
    'master.d/a.conf': 'ret_port: -1\n',
  });
  const { stdout } = await runCli(['config', 'check', directory]);
  const places = stdout.replaceAll(directory, 'DIR').match(/^\w+: DIR\/\S+:\d+/gm);
  t.deepEqual(places, [
    'error: DIR/master:1',
    'error: DIR/master:2',
    'error: DIR/master:4',
    'error: DIR/master.d/a.conf:1',
    'warning: DIR/master:5',
    'warning: DIR/master:6',
  ]);
});

test('config check --json has the members of each', async (t) => {
  const directory = configDirectory(t, { master: 'timeout: -1\npublsh_port: 1\n' });
  const { code, stdout } = await runCli(['config', 'check', '--json', directory]);
  t.is(code, 78);
  const report = JSON.parse(stdout);
  t.like(report.problems[0], { code: 'ERR_OPTION_TYPE', line: 1, key: 'timeout' });
  t.like(report.warnings[0], { kind: 'unknown-option', line: 2, key: 'publsh_port' });
});

test('config check ends with 0 where there are warnings alone', async (t) => {
  const directory = configDirectory(t, { master: 'worker_threads: 9\n' });
  t.is((await runCli(['config', 'check', directory])).code, 0);
});

test('config check of a directory that is not there ends with 78', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'none');
  const { code, stdout } = await runCli(['config', 'check', directory]);
  t.is(code, 78);
  t.regex(stdout, /^error: .*none: there is no such directory/);
});

test('every command refuses a -c that names no directory', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'none');
  for (const command of [['master'], ['status'], ['key', 'list'], ['doctor'], ['config', 'show']]) {
    const { code, stderr } = await runCli([...command, '-c', directory]);
    t.is(code, 78, command.join(' '));
    t.is(
      stderr,
      `saltbridge: ${directory}: -c names no directory, expected one with a file named master\n`,
    );
  }
});

test('the start tells two mistakes at once, and ends with 78', async (t) => {
  const directory = configDirectory(t, {
    master: 'publish_port: 99999\nsaltbridge: {bridge: {runs: {active: 0}}}\n',
  });
  for (const more of [[], ['-d']]) {
    const { code, stderr } = await runCli(['master', '-c', directory, ...more]);
    t.is(code, 78);
    t.deepEqual(stderr.replaceAll(directory, 'DIR').trimEnd().split('\n'), [
      'saltbridge: 2 mistakes in the configuration:',
      'DIR/master:1: publish_port: 99999 is over 65535, expected a whole number from 0 to 65535',
      'DIR/master:2: saltbridge:bridge:runs:active: 0 is under 1',
    ]);
  }
});

test('config show prints what is in force and where it comes from, and no secrets', async (t) => {
  const directory = configDirectory(t, {
    master: `root_dir: /srv/x
publish_port: 4605
key_pass: hunter2
auth.ldap.bindpw: hunter2
keystone.auth_url: http://fred:hunter2@k/v3
ext_pillar: [{minion_http: {url: 'https://h/x', hosts: [h], headers: {X-T: hunter2}}}]
saltbridge:
  bridge: {keystone: {url: https://k/v3, password: hunter2}}
`,
    'master.d/a.conf': 'saltbridge:\n  limits:\n    burst: 7\n',
  });
  const { code, stdout } = await runCli(['config', 'show', directory]);
  t.is(code, 0);
  t.notRegex(stdout, /hunter2/);
  const lines = stdout.replaceAll(directory, 'DIR').split('\n');
  t.true(lines.includes('publish_port: 4605 # DIR/master:2'));
  t.true(lines.includes('ret_port: 4506 # default'));
  t.true(lines.includes('pki_dir: "/srv/x/etc/salt/pki/master" # default'), 'below root_dir');
  t.true(lines.includes('key_pass: "(hidden)" # DIR/master:3'));
  t.true(lines.includes('    burst: 7 # DIR/master.d/a.conf:3'));
  // It is YAML that can be read again.
  t.like(parse(stdout), { publish_port: 4605, saltbridge: { limits: { burst: 7 } } });

  const changed = await runCli(['config', 'show', '--changed', directory]);
  t.deepEqual(Object.keys(parse(changed.stdout)), [
    'publish_port',
    'root_dir',
    'key_pass',
    'ext_pillar',
    'keystone.auth_url',
    'auth.ldap.bindpw',
    'saltbridge',
  ]);
  const json = JSON.parse((await runCli(['config', 'show', '--json', directory])).stdout);
  const burst = json.find(({ key }: { key: string[] }) => key.at(-1) === 'burst');
  t.like(burst, { key: ['saltbridge', 'limits', 'burst'], value: 7, origin: { line: 3 } });
});
