/**
 * Tests of `saltbridge config`, and of the messages that all commands print about an unusable
 * configuration.
 */

import path from 'node:path';
import test from 'ava';
import { parse } from 'yaml';
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
      'warning: DIR/master:3: worker_threads has no effect: a single process replaces the worker processes of salt-master; there is nothing to tune',
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

test('config check --json prints all fields of each error and warning', async (t) => {
  const directory = configDirectory(t, { master: 'timeout: -1\npublsh_port: 1\n' });
  const { code, stdout } = await runCli(['config', 'check', '--json', directory]);
  t.is(code, 78);
  const report = JSON.parse(stdout);
  t.like(report.problems[0], { code: 'ERR_OPTION_TYPE', line: 1, key: 'timeout' });
  t.like(report.warnings[0], { kind: 'unknown-option', line: 2, key: 'publsh_port' });
});

test('config check exits with 0 if there are only warnings', async (t) => {
  const directory = configDirectory(t, { master: 'worker_threads: 9\n' });
  t.is((await runCli(['config', 'check', directory])).code, 0);
});

test('config check of a missing directory exits with 78', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'none');
  const { code, stdout } = await runCli(['config', 'check', directory]);
  t.is(code, 78);
  t.regex(stdout, /^error: .*none: the directory does not exist/);
});

test('every command refuses a -c that does not name a directory', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'none');
  for (const command of [['master'], ['status'], ['key', 'list'], ['doctor'], ['config', 'show']]) {
    const { code, stderr } = await runCli([...command, '-c', directory]);
    t.is(code, 78, command.join(' '));
    t.is(
      stderr,
      `saltbridge: ${directory}: -c: the directory does not exist; give a directory that contains a file named master\n`,
    );
  }
});

test('the start reports two mistakes at once, and exits with 78', async (t) => {
  const directory = configDirectory(t, {
    master: 'publish_port: 99999\nsaltbridge: {bridge: {runs: {active: 0}}}\n',
  });
  for (const more of [[], ['-d']]) {
    const { code, stderr } = await runCli(['master', '-c', directory, ...more]);
    t.is(code, 78);
    t.deepEqual(stderr.replaceAll(directory, 'DIR').trimEnd().split('\n'), [
      'saltbridge: the configuration has 2 errors:',
      'DIR/master:1: publish_port: 99999 is over 65535, expected a whole number from 0 to 65535',
      'DIR/master:2: saltbridge:bridge:runs:active: 0 is under 1, expected a whole number from 1 to 1000000',
    ]);
  }
});

test('config show prints the current options and their sources, without secrets', async (t) => {
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
  // The output is YAML that can be parsed again.
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

test('config check reports each mistake within a list by entry and line', async (t) => {
  const directory = configDirectory(t, {
    master: `fileserver_backend: [gitfs]
gitfs_remotes:
  - file:///srv/states.git
  - https://me:planted@git.example.org/formula.git:
      - rot: salt
      - ssl_verify: perhaps
      - root:
      - saltenv:
          - dev:
              - reff: develop
  - https://git.example.org/good.git
  - [a]
reactor:
  - deploy/done: [/srv/a.sls, b.sls]
  - [c]
  - salt/minion/*/start: [/srv/c.sls]
ext_pillar:
  - minion_files: {directory: srv, max_byts: 1}
  - minion_http: {url: 'https://a.test/{id}', hosts: [b.test]}
  - minion_http: {timeout: 0}
  - git:
      - main https://git.example.org/p.git:
          - enw: base
  - git:
      - main ext::sh
      - main file:///srv/p.git
file_roots:
  base: [/srv/salt]
saltbridge:
  event_export:
    - name: one
      webhok: https://a.test
    - name: two
      file: two.log
      timeout: 5
    - name: two
      nats: tls://192.0.2.1
      cert_file: /c
    - webhook: http://a.test
      timeout: 0
  acl:
    signals:
      - {tag: my/tag, rate: often}
      - {tag: my/other, rate: often}
`,
    'master.d/a.conf': 'gitfs_saltenv:\n  - prod:\n      - ref: -x\n',
    'master.d/b.conf': 'gitfs_saltenv:\n  - dev:\n      - route: x\n',
  });
  const { stdout } = await runCli(['config', 'check', directory]);
  t.notRegex(stdout, /planted/);
  t.deepEqual(errorsIn(stdout, directory), [
    'DIR/master:3: gitfs_remotes[0]: file:///srv/states.git: the protocol file is not permitted: saltbridge: git: protocols lists https, http, ssh, git',
    'DIR/master:5: gitfs_remotes[1]:rot: unknown option; did you mean root?',
    'DIR/master:6: gitfs_remotes[1]:ssl_verify: found a text, expected true or false',
    'DIR/master:7: gitfs_remotes[1]:root: found nothing, expected text',
    'DIR/master:10: gitfs_remotes[1]:https://git.example.org/formula.git[3]:saltenv[0]:dev[0]:reff: unknown option; did you mean ref?',
    'DIR/master:12: gitfs_remotes[3]: found a list, expected an address, or a map with one key: an address, with the parameters as its value',
    'DIR/master:14: reactor[0]:deploy/done[1]: found a text, expected a file: salt://…, or an absolute path',
    'DIR/master:15: reactor[1]: found a list, expected a map of one tag to a list of its files',
    'DIR/master:18: ext_pillar[0]:minion_files:directory: found a text, expected an absolute path',
    'DIR/master:18: ext_pillar[0]:minion_files:max_byts: unknown option; did you mean max_bytes?',
    'DIR/master:19: ext_pillar[1]:minion_http:url: the host is not listed under hosts',
    'DIR/master:20: ext_pillar[2]:minion_http:timeout: 0 is under 0.1, expected a number from 0.1 to 300',
    'DIR/master:20: ext_pillar[2]:minion_http: url must be set',
    'DIR/master:20: ext_pillar[2]:minion_http: hosts must be set',
    'DIR/master:23: ext_pillar[3]:git[0]:enw: unknown option; did you mean env?',
    'DIR/master:25: ext_pillar[4]:git[0]: ext::sh: the protocol ext is not permitted: saltbridge: git: protocols lists https, http, ssh, git',
    'DIR/master:26: ext_pillar[4]:git[1]: file:///srv/p.git: the protocol file is not permitted: saltbridge: git: protocols lists https, http, ssh, git',
    'DIR/master:31: saltbridge:event_export[0]: expected one of webhook, file and nats',
    'DIR/master:32: saltbridge:event_export[0]:webhok: unknown option; did you mean webhook?',
    'DIR/master:34: saltbridge:event_export[1]:file: found a text, expected an absolute path',
    'DIR/master:35: saltbridge:event_export[1]:timeout: this option does not apply to an export with file',
    'DIR/master:36: saltbridge:event_export[2]:name: the name is already used by another export',
    'DIR/master:37: saltbridge:event_export[2]:nats: expected addresses such as tls://name:port with host names, without user and password (nats: requires allow_plaintext)',
    'DIR/master:38: saltbridge:event_export[2]:cert_file: must be set together with key_file',
    'DIR/master:39: saltbridge:event_export[3]: name must be set',
    'DIR/master:39: saltbridge:event_export[3]:webhook: expected an https address without user and password (http requires allow_plain_http)',
    'DIR/master:40: saltbridge:event_export[3]:timeout: 0 is under 1, expected a whole number from 1 to 300',
    'DIR/master:43: saltbridge:acl:signals[0]:rate: must be a number, a slash, and second, minute, hour or day',
    'DIR/master:44: saltbridge:acl:signals[1]:rate: must be a number, a slash, and second, minute, hour or day',
    'DIR/master.d/a.conf:3: gitfs_saltenv[0]:prod[0]:ref: found a text, expected text that does not begin with -',
    'DIR/master.d/b.conf:3: gitfs_saltenv[0]:dev[0]:route: unknown option; did you mean root?',
  ]);
});

test('config check reports all mistakes in a schedule', async (t) => {
  const directory = configDirectory(t, {
    master: `schedule:
  refresh: {minutes: 5}
  clean:
    functon: a.b
    maxrunning: 0
    cron: '* * *'
  none: text
  fine: {function: test.ping, seconds: 5}
`,
  });
  const { stdout } = await runCli(['config', 'check', directory]);
  const errors = [
    'DIR/master:2: schedule:refresh: function: expected module.function',
    'DIR/master:3: schedule:clean: function: expected module.function',
    'DIR/master:5: schedule:clean: maxrunning: expected a whole number, 1 or more',
    'DIR/master:6: schedule:clean: cron: expected five fields',
    'DIR/master:7: schedule:none: expected a map',
  ];
  t.deepEqual(errorsIn(stdout, directory), errors);
  t.regex(stdout, /master:4: schedule: clean: functon has no effect .*; did you mean function\?/);
  const { stderr } = await runCli(['master', '-c', directory]);
  const told = stderr.replaceAll(directory, 'DIR').trimEnd().split('\n').slice(1);
  t.deepEqual(told.sort(), errors);
});

/** Returns the mistakes in the output of a command. */
function errorsIn(stdout: string, directory: string): string[] {
  const lines = stdout.replaceAll(directory, 'DIR').split('\n');
  return lines.filter((line) => line.startsWith('error: ')).map((line) => line.slice(7));
}

test('config schema prints the JSON Schema of configuration files', async (t) => {
  const { code, stdout } = await runCli(['config', 'schema']);
  t.is(code, 0);
  const { properties } = JSON.parse(stdout);
  t.is(properties.publish_port.default, 4505);
  t.truthy(properties.saltbridge.properties.limits.properties.burst);
});
