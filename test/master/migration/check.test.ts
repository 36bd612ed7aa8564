/** The migration report on configurations that were written for these tests. */

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
import fc from 'fast-check';
import { decide, isReservedTag } from '#acl';
import {
  type Listening,
  loadMasterConfig,
  planSignals,
  resolveMasterConfig,
  rulesOf,
  type SignalPlan,
} from '#config';
import { checkMigration, type MigrationReport, policyText } from '#server/ops.ts';
import { compileGlob } from '#template/python/fnmatch.ts';
import { tries } from '../../helpers/effort.ts';
import { policyOf } from '../../helpers/policies.ts';
import { rsaPair } from '../../helpers/rsa-keys.ts';
import { configDirectory } from '../config/files.ts';

/**
 * Creates a site below one directory, with `etc/master` as given. `ROOT` is replaced by the
 * directory.
 */
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

/** Returns `[outcome, line, meaning]` of the finding about a name. */
function said({ findings }: MigrationReport, name: string): readonly [string, string] | undefined {
  const finding = findings.find((it) => it.name === name);
  return finding && [finding.outcome, `${path.basename(finding.file)}:${finding.line}`];
}

/** Returns all files and directories below a directory with their properties, to detect changes. */
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

test('expressions that permit less than in Salt are reported with their line', async (t) => {
  const report = await check(site(t, { 'etc/master': "peer:\n  '.*':\n    - test.ping\n" }));
  const [option, narrowed] = report.findings.filter(({ name }) => name.startsWith('peer'));
  t.like(option, { outcome: 'honoured', meaning: 'The option is supported.' });
  t.is(narrowed?.outcome, 'honoured');
  t.regex(
    narrowed?.meaning ?? '',
    /^The option permits less than in Salt\. peer: test\.ping must match/,
  );
  t.is(narrowed?.line, (option?.line ?? 0) + 1);
});

test('refused permissions are reported once, without further findings', async (t) => {
  const report = await check(site(t, { 'etc/master': "peer:\n  '.*':\n    - '(?=a)'\n" }));
  const found = report.findings.filter(({ name }) => name.startsWith('peer'));
  t.deepEqual(
    found.map(({ outcome }) => outcome),
    ['refused'],
  );
});

test('options are classified as supported, ignored or refused, each with its file and line', async (t) => {
  const report = await check(
    site(t, {
      'etc/master':
        'timeout: 7\nworker_threads: 8\nno_such_option: 1\nenv: {driver: env}\nv: {driver: vault}\n',
      'etc/master.d/a.conf': '\nengines: [stalekey]\n',
      'etc/master.d/b.conf': 'schedule: {x: {function: jobs.active, minutes: 5}}\n',
    }),
  );
  t.deepEqual(said(report, 'timeout'), ['honoured', 'master:6']);
  t.deepEqual(said(report, 'worker_threads'), ['ignored', 'master:7']);
  t.deepEqual(said(report, 'no_such_option'), ['ignored', 'master:8']);
  t.deepEqual(said(report, 'env'), ['honoured', 'master:9']);
  t.deepEqual(said(report, 'v'), ['refused', 'master:10']);
  t.deepEqual(said(report, 'engines'), ['refused', 'a.conf:2']);
  t.deepEqual(said(report, 'schedule'), ['honoured', 'b.conf:1']);
  t.true(report.findings.every((it) => it.outcome !== 'refused' || it.remedy !== ''));
});

test('modules used by an option are named, without values', async (t) => {
  const yaml = [
    'ext_pillar: [{cmd_yaml: secret-command}, {hg: [main https://secret]}]',
    'engines: [{slack: {token: secret}}, stalekey]',
    'master_job_cache: mysql',
    'event_return: [mysql, elastic]',
  ];
  const report = await check(site(t, { 'etc/master': yaml.join('\n') }));
  const meanings = report.findings.map(({ meaning }) => meaning).join(' ');
  for (const names of ['cmd_yaml, hg', 'slack, stalekey', 'mysql', 'mysql, elastic']) {
    t.true(meanings.includes(`In use: ${names}.`), names);
  }
  t.notRegex(JSON.stringify(report.findings), /secret/);
});

test('external pillar is supported if all of its modules are', async (t) => {
  const reportOf = (ext: string) =>
    check(site(t, { 'etc/master': `ext_pillar: [{minion_files: /srv/a}${ext}]\n` }));
  t.is(said(await reportOf(''), 'ext_pillar')?.[0], 'honoured');
  t.is(said(await reportOf(', {git: [main https://a.test/x]}'), 'ext_pillar')?.[0], 'honoured');
  t.is(said(await reportOf(', {hg: [a]}'), 'ext_pillar')?.[0], 'refused');
});

test("a disabled part, or Salt's default, is not refused", async (t) => {
  const yaml = 'engines: []\nmaster_job_cache: local_cache\nmaster_tops:\n';
  const report = await check(site(t, { 'etc/master': yaml }));
  for (const name of ['engines', 'master_job_cache', 'master_tops']) {
    t.is(said(report, name)?.[0], 'ignored', name);
  }
});

test('every option that prevents the start is found', async (t) => {
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

test('an invalid YAML file is a finding, and the others are read', async (t) => {
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

test('renderers of pillar other than Jinja, YAML and JSON are refused', async (t) => {
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
  t.regex(gpg?.remedy ?? '', /decrypt/);
});

test('a tree with a link to itself is read once', async (t) => {
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

test('Python code belongs to the minions or to the master', async (t) => {
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

test('salt-cloud, a roster and proxies are named with their files', async (t) => {
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

test('keys are counted by state, and unusable ones are named', async (t) => {
  const good = rsaPair().publicPem;
  const report = await check(
    site(t, {
      'pki/minions/web1': good,
      'pki/minions/old1': rsaPair(0, 1024).publicPem,
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

test('ids that are invalid for new minions are named', async (t) => {
  const files = {
    'pki/minions/old*': rsaPair().publicPem,
    'pki/minions_pre/a b': rsaPair().publicPem,
  };
  const report = await check(site(t, files));
  t.deepEqual(said(report, 'id "old*"'), ['honoured', 'old*:0']);
  t.deepEqual(said(report, 'id "a b"'), ['honoured', 'a b:0']);
  const lax = { ...files, 'etc/master': 'saltbridge: {minion_ids: salt}\n' };
  t.is(said(await check(site(t, lax)), 'id "old*"'), undefined);
});

test('the check writes, creates and touches no file of the site', async (t) => {
  const root = site(t, {
    'etc/master': 'file_roots: {base: [ROOT/salt]}\npillar_roots: {}\nreactor: [{x: [y]}]\n',
    'salt/a.sls': '#!py\n',
    'pki/minions/web1': rsaPair().publicPem,
    'pki/.saltbridge-1.tmp': 'left over',
  });
  mkdirSync(path.join(root, 'pki/minions_pre'));
  const before = snapshot(root);
  await check(root);
  t.deepEqual(snapshot(root), before);
});

// The rules that reactor files need, derived from their content.

/** Returns the report on a reactor with one file. */
async function checkFile(
  t: ExecutionContext,
  sls: string,
  more = '',
): Promise<MigrationReport['reactions']> {
  const root = configDirectory(t, { 'etc/.keep': '', 'reactor/a.sls': sls });
  const main = `root_dir: ${root}\npki_dir: pki\nfile_roots: {base: [${root}/reactor]}\npillar_roots: {}\n`;
  const reactor = `reactor: [{'my/*': ['salt://a.sls']}]\n`;
  const etc = configDirectory(t, { master: `${main}${reactor}${more}` });
  return (await checkMigration(etc)).reactions;
}

/**
 * Returns the planned rules as `action functions within`, and the reasons for others that cannot be
 * derived.
 */
async function plannedFor(
  t: ExecutionContext,
  sls: string,
  more?: string,
): Promise<readonly (readonly string[])[]> {
  const { rules, underivable } = await checkFile(t, sls, more);
  return [
    rules.map(({ action, functions, within }) =>
      [action, functions.join(','), within].filter((it) => it !== undefined).join(' '),
    ),
    underivable.map(({ reason }) => reason),
  ];
}

const derived: readonly (readonly [what: string, sls: string, rules: readonly string[]])[] = [
  [
    'a job with a literal target',
    "go:\n  local.state.apply:\n    - tgt: 'web*'\n    - args: [{mods: {{ data.mods }}}]\n",
    ['publish state.apply web*'],
  ],
  ['the older name', 'go:\n  cmd.test.ping:\n    - tgt: web1\n', ['publish test.ping web1']],
  [
    'functions in lists',
    "go:\n  local:\n    - test.ping\n    - tgt: '*'\n",
    ['publish test.ping *'],
  ],
  [
    'runners and wheel functions with values of the event',
    'a:\n  runner.state.orchestrate:\n    - args: [{mods: orch.up}, {pillar: {{ data | json }}}]\nb:\n  wheel.key.accept:\n    - match: {{ data.id }}\n',
    ['runner state.orchestrate', 'wheel key.accept'],
  ],
  [
    'each branch of a template, though an id stands in both',
    "{% if data.act == 'pend' %}\nk:\n  wheel.key.accept:\n    - match: a\n{% else %}\nk:\n  wheel.key.delete:\n    - match: a\n{%- endif %}\n",
    ['wheel key.accept,key.delete'],
  ],
  [
    'targets of every type that a rule can name',
    'a:\n  local.test.ping:\n    - tgt: [web1, web2]\n    - tgt_type: list\nb:\n  local.test.ping:\n    - tgt: web and not db\n    - tgt_type: compound\nc:\n  local.test.ping:\n    - tgt: east\n    - tgt_type: nodegroup\nd:\n  local.test.ping:\n    - tgt: web[0-9]+\n    - tgt_type: pcre\n',
    [
      'publish test.ping L@web1,web2',
      'publish test.ping web and not db',
      'publish test.ping N@east',
      'publish test.ping E@web[0-9]+',
    ],
  ],
  ['a comment of the template', '{# local.cmd.run: #}\n', []],
];

for (const [what, sls, rules] of derived) {
  test(`rules are derived from ${what}`, async (t) => {
    t.deepEqual(await plannedFor(t, sls), [rules, []]);
  });
}

const underivable: readonly (readonly [what: string, sls: string, reason: RegExp])[] = [
  [
    'a templated target',
    'go:\n  local.test.ping:\n    - tgt: {{ data.id }}\n',
    /^go: takes its target from a template$/,
  ],
  [
    'a target that is templated in part',
    "go:\n  local.test.ping:\n    - tgt: 'web-{{ data.n }}*'\n",
    /target from a template/,
  ],
  [
    'a target between branches on one line',
    'go:\n  local.test.ping:\n    - tgt: {% if data.x %}web1{% else %}*{% endif %}\n',
    /target from a template/,
  ],
  [
    'a target that branches choose',
    "go:\n  local.test.ping:\n{% if data.x %}\n    - tgt: web1\n{% else %}\n    - tgt: '*'\n{% endif %}\n",
    /target that a template chooses/,
  ],
  [
    'a templated function',
    'go:\n  local.{{ data.fun }}:\n    - tgt: web1\n',
    /function from a template|cannot be determined/,
  ],
  [
    'a templated name of a function',
    'go:\n  runner.state.{{ data.fun }}:\n    - args: []\n',
    /function from a template/,
  ],
  ['a call that is wholly templated', '{{ data.calls }}\n', /cannot be determined/],
  ['a file in Python', '#!py\ndef run():\n  return {}\n', /"py" is not served/],
  ['a part of another file', "{% include 'b.sls' %}\n", /other files/],
  [
    'a target by grains',
    "go:\n  local.test.ping:\n    - tgt: 'role:web'\n    - tgt_type: grain\n",
    /has a target by grains/,
  ],
  [
    'a nodegroup with grains',
    'go:\n  local.test.ping:\n    - tgt: west\n    - tgt_type: nodegroup\n',
    /by grains/,
  ],
  ['what this master does not serve', 'go:\n  caller.test.ping: []\n', /caller, which is not/],
];

for (const [what, sls, reason] of underivable) {
  test(`no rule is derived from ${what}, and the report names it`, async (t) => {
    const nodegroups = "nodegroups: {west: 'N@all and web*', all: 'G@os:Debian'}\n";
    const [rules, reasons] = await plannedFor(t, sls, nodegroups);
    t.deepEqual(rules, []);
    t.is(reasons?.length, 1);
    t.regex(reasons?.[0] ?? '', reason);
  });
}

test('a missing reactor file is reported, and so are rules that cannot be derived', async (t) => {
  const main = "reactor: [{'my/*': [/nonexistent/a.sls]}]\nfile_roots: {}\npillar_roots: {}\n";
  const etc = configDirectory(t, { master: main });
  const { findings, reactions } = await checkMigration(etc);
  t.deepEqual(reactions.underivable, [
    { reference: '/nonexistent/a.sls', file: '', reason: 'the file does not exist' },
  ]);
  const found = findings.find(({ name }) => name === '/nonexistent/a.sls');
  t.like(found, { outcome: 'refused', file: path.join(etc, 'master'), line: 1 });
  const option = findings.find(({ name }) => name === 'reactor');
  t.regex(option?.meaning ?? '', /Without a rule it may do nothing/);
});

// The smallest policy: minions may emit the events for which a site has listeners, and no others.

function listening(...patterns: readonly string[]): Listening[] {
  return patterns.map((pattern) => ({ pattern, listener: 'reactor', file: 'master', line: 1 }));
}

function planOf(pattern: string, enginePrefixes: readonly string[] = []): SignalPlan {
  return planSignals(listening(pattern), enginePrefixes);
}

function tagsOf({ rules }: SignalPlan): string[] {
  return rules.map(({ tag }) => tag);
}

/** Returns the signals that `migrate check` plans for one main file. */
async function planOfFile(t: ExecutionContext, yaml: string, files = {}): Promise<SignalPlan> {
  const directory = configDirectory(t, { master: `root_dir: ROOT\n${yaml}`, ...files });
  return (await checkMigration(directory)).signals;
}

for (const pattern of [
  'salt/minion/*/start',
  'salt/auth',
  'salt/key',
  'salt/job/*/ret/*',
  'salt/job/20240102030405678000/*',
  'salt/beacon/*/inotify/*',
  'salt/beacon/web1/load/',
  'salt/cloud/*/destroyed',
  'salt/presence/change',
  'salt/run/*',
  'salt/auth*',
  'minion_start',
]) {
  test(`${pattern} needs no rule`, (t) => {
    const plan = planOf(pattern);
    t.deepEqual(tagsOf(plan), []);
    t.is(plan.needless.length, 1);
  });
}

for (const pattern of [
  'myco/deploy/*',
  'myco/deploy/done',
  'my*',
  '*/deploy/done',
  'key*',
  'salt/custom/*',
  'salt/engines/docker_events/*',
  'salt/jobs/*',
]) {
  test(`${pattern} is granted unchanged`, (t) => {
    t.deepEqual(tagsOf(planOf(pattern)), [pattern]);
  });
}

for (const pattern of [
  '*',
  '**',
  '*/*',
  '?*',
  '[a-z]*',
  'my/{{ tag }}',
  'a\nb*',
  'x'.repeat(600),
]) {
  test(`${JSON.stringify(pattern.slice(0, 20))} is not granted, with a reason`, (t) => {
    const plan = planOf(pattern);
    t.deepEqual(tagsOf(plan), []);
    t.is(plan.ungranted.length, 1);
    t.not(plan.ungranted[0]?.reason, '');
  });
}

const reactions = { rules: [], underivable: [] };

test('salt/* is narrowed to the tags that need a rule', (t) => {
  for (const pattern of ['salt/*', 'salt*']) {
    const plan = planOf(pattern);
    t.deepEqual(tagsOf(plan), ['salt/state_result/*']);
    t.is(plan.narrowed.length, 1);
  }
});

test('a rule that also covers tags of the master is granted with a note', (t) => {
  t.is(planOf('*/ret/*').narrowed.length, 1);
  t.is(planOf('myco/*').narrowed.length, 0);
});

test('tags that an engine of the master fires need no rule', (t) => {
  t.deepEqual(tagsOf(planOf('salt/engines/slack/*', ['salt/engines/slack'])), []);
  t.deepEqual(tagsOf(planOf('salt/engines/slackware/*', ['salt/engines/slack'])), [
    'salt/engines/slackware/*',
  ]);
});

test('a rule needed by two listeners is written once, with both names', (t) => {
  const plan = planSignals(listening('my/tag', 'my/tag'), []);
  t.deepEqual(tagsOf(plan), ['my/tag']);
  t.is(plan.rules[0]?.listeners.length, 2);
});

test('reactors, engines and returners of events are listeners', async (t) => {
  const plan = await planOfFile(
    t,
    `reactor: [{my/one: [a.sls]}, {'my/two/*': [b.sls]}]
engines:
  - http_logstash: {url: x, tags: [log/*, salt/auth]}
  - fluent
  - slack: {token: x}
event_return: rawfile_json
event_return_whitelist: [kept/*]
`,
  );
  t.deepEqual(tagsOf(plan), ['my/one', 'my/two/*']);
  t.deepEqual(
    plan.ungranted.map(({ pattern, listener }) => [pattern, listener]),
    [
      ['log/*', 'engine http_logstash'],
      ['*', 'engine fluent'],
      ['kept/*', 'event_return rawfile_json'],
    ],
  );
  t.deepEqual(
    plan.rules.map(({ listeners }) => listeners[0]?.line),
    [2, 2],
  );
});

test('reactors of several files are all listeners', async (t) => {
  const plan = await planOfFile(t, '', {
    'master.d/a.conf': 'reactor: [{my/one: [a.sls]}]',
    'master.d/b.conf': 'reactor: [{my/two: [a.sls]}]',
  });
  t.deepEqual(tagsOf(plan), ['my/one', 'my/two']);
});

test('formulas of Thorium name the tags that they listen for, if it is enabled', async (t) => {
  const directory = configDirectory(t, {
    'thorium/watch.sls': "x:\n  reg.set:\n    - add: y\n    - match: 'my/metric/*'  # often\n",
    master: '',
  });
  const roots = `thorium_roots: {base: [${path.join(directory, 'thorium')}]}\n`;
  const { rules, ungranted } = await planOfFile(t, `${roots}engines: [{thorium: {}}]\n`);
  t.deepEqual(rules, []);
  t.deepEqual(
    ungranted.map(({ pattern }) => pattern),
    ['my/metric/*'],
  );
  t.deepEqual(tagsOf(await planOfFile(t, roots)), []);
});

test('orchestrations name the tags that they wait for', async (t) => {
  const directory = configDirectory(t, {
    'salt/orch/deploy.sls': `wait_a:
  salt.wait_for_event:
    - id_list: [web1]
    - name: my/done/*
    - timeout: 60
other:
  salt.state:
    - name: not/this
wait_b:
  salt.wait_for_event:
  - name: "my/other"
my/by/id:
  salt.wait_for_event:
    - timeout: 60
next:
  cmd.run:
    - name: nor/this
`,
  });
  const plan = await planOfFile(t, `file_roots: {base: [${path.join(directory, 'salt')}]}\n`);
  t.deepEqual(
    plan.rules.map(({ tag, listeners }) => [tag, listeners[0]?.line]),
    [
      ['my/done/*', 2],
      ['my/other', 10],
    ],
  );
});

test('the master can read the written policy', async (t) => {
  const odd = ['my/tag', 'quo"te*', "it's: #x", 'ünïcode/*', '- {a}', 'back\\slash'];
  const plan = planSignals(listening(...odd, '*', 'salt/*', 'salt/auth'), []);
  const directory = configDirectory(t, {
    'master.d/signals.conf': policyText({ signals: plan, reactions }),
    master: '',
  });
  const { config } = await loadMasterConfig(directory);
  t.deepEqual(
    config.acl.signals.map(({ tag }) => tag),
    [...odd, 'salt/state_result/*'],
  );
});

test('the master can read a policy without rules', async (t) => {
  const text = policyText({ signals: planSignals([], []), reactions });
  const { config } = await loadMasterConfig(configDirectory(t, { master: text }));
  t.deepEqual(config.acl.signals, []);
});

test('no name can break out of its comment', (t) => {
  const [item] = listening('salt/auth');
  const listener = 'x\nsaltbridge: {acl: 1}\u2028y';
  const text = policyText({
    signals: planSignals(item ? [{ ...item, listener }] : [], []),
    reactions,
  });
  t.is(text.split('\n').filter((line) => line.startsWith('saltbridge')).length, 1);
});

const segment = fc.constantFrom(
  'salt',
  'job',
  'auth',
  'my',
  'deploy',
  'ret',
  'key',
  'x',
  'state_result',
  'web1',
);
const piece = fc.oneof(segment, segment, fc.constantFrom('*', '?', 'm*', 's*', '[!s]*'));
const pattern = fc.array(piece, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));
const tag = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));

test('a tag with a listener is permitted, or needs no rule, or cannot get one', (t) => {
  const check = (globs: string[], candidate: string): void => {
    const plan = planSignals(listening(...globs), []);
    const rules = plan.rules.map((rule) => ({ tag: rule.tag, minions: '*' }));
    const allowed = decide(
      {
        subject: { kind: 'minion', id: 'web1' },
        action: 'signal',
        resource: { tag: candidate, wasPublishedToSubject: () => false },
      },
      policyOf(rulesOf(resolveMasterConfig({ acl: { signals: rules } }))),
    ).effect;
    const heard = globs.filter((glob) => compileGlob(glob)(candidate));
    const told = new Set(
      [...plan.narrowed, ...plan.ungranted, ...plan.needless].map((it) => it.pattern),
    );
    const isOthers = candidate.startsWith('salt/state_result/');
    if (heard.length === 0) t.is(allowed, 'deny', candidate);
    if (isReservedTag(candidate)) t.is(allowed, 'deny', candidate);
    else if (heard.some((glob) => !told.has(glob)) && !isOthers) t.is(allowed, 'allow', candidate);
  };
  fc.assert(fc.property(fc.array(pattern, { minLength: 1, maxLength: 3 }), tag, check), tries(200));
});

test('a value without effect is refused, also after another mistake', async (t) => {
  const report = await check(
    site(t, {
      'etc/master': `gitfs_remotes: [nonsense]
fileserver_backend: [gitfs]
renderer: yaml|gpg
external_auth:
  ldap: {fred: ['.*']}
  mysql: {ann: ['.*']}
auth.ldap.server: ldap
auth.ldap.anonymous: true
auth.ldap.filter: uid={{ username }}
schedule:
  one: {function: nosuch.fun, seconds: 60}
`,
    }),
  );
  const refused = report.findings.filter(({ outcome }) => outcome === 'refused');
  const meanings = refused.map(({ name, meaning }) => `${name} ${meaning}`).join('\n');
  t.regex(meanings, /^gitfs_remotes The master does not start: .*nonsense/m);
  t.regex(
    meanings,
    /^external_auth:mysql The option has no effect\. external_auth: mysql: is not supported/m,
  );
  t.regex(meanings, /^renderer The option has no effect\. .*"gpg" is not served/m);
  t.regex(
    meanings,
    /^schedule:one:function The option has no effect\. .*unknown runner nosuch\.fun/m,
  );
  t.notRegex(meanings, /external_auth: ldap|auth\.ldap/);
  t.false(
    report.findings.some(({ name, outcome }) => name === 'renderer' && outcome !== 'refused'),
  );
});

test('functions and filters that templates cannot use are reported with places and reasons', async (t) => {
  const root = site(t, {
    'etc/master': 'file_roots: {base: [ROOT/srv]}\npillar_roots: {base: [ROOT/pillar]}\n',
    'pillar/a.sls': `{# salt['comment.only']() #}
x: {{ salt['cmd.run']('id') }}
y: {{ salt.grains.get('id') }} {{ salt["nosuch.one"]() }}
z: salt['plain.text'] | which
w: {{ 'a | which' | upper }} {{ 'ls' |which }}
`,
    'pillar/lib/map.jinja': `{% set a = salt.nosuch.two(1) %}\n{%- set b = salt['cmd.run']('id') -%}\n`,
    'srv/orch.sls': `{% for id in salt['nosuch.three']() %}
{{ id }}:
  salt.state:
    - tgt: {{ salt['pillar.get']('x') }}
{% endfor %}
`,
    'srv/state.sls': "a:\n  cmd.run:\n    - name: {{ salt['nosuch.minion']() }}\n",
  });
  const { findings } = await check(root);
  const calls = findings.filter(({ name }) => name.startsWith("salt['"));
  t.deepEqual(
    calls.map(({ name, file, line, outcome }) => [name, path.relative(root, file), line, outcome]),
    [
      ["salt['cmd.run']", 'pillar/a.sls', 2, 'refused'],
      ["salt['nosuch.one']", 'pillar/a.sls', 3, 'refused'],
      ["salt['nosuch.two']", 'pillar/lib/map.jinja', 1, 'refused'],
      ["salt['nosuch.three']", 'srv/orch.sls', 1, 'refused'],
    ],
  );
  t.regex(calls[0]?.meaning ?? '', /Also at .*map\.jinja:2\.$/);
  t.regex(
    calls[0]?.remedy ?? '',
    /^Templates of the master cannot run commands; .*templates\.md\.$/,
  );
  const filters = findings.filter(({ name }) => name.startsWith('filter '));
  t.deepEqual(
    filters.map(({ name, line, remedy }) => [name, line, remedy]),
    [
      [
        'filter which',
        5,
        'It accesses files, users or the network; see docs/compatibility/templates.md.',
      ],
    ],
  );
});
