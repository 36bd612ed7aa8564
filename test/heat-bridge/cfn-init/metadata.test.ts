/**
 * Compiles `AWS::CloudFormation::Init` to states. Values of the metadata never become anything but
 * values.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { parseInitMetadata } from '#guests/cfn-init/init-metadata.ts';
import { CodeCatalog } from '#guests/deployments/code-catalog.ts';
import { commandText } from '#heat-bridge/commands/states/command-text.ts';
import { compileStates } from '#heat-bridge/commands/states/compile-states.ts';
import { ContentBudget } from '#heat-bridge/commands/states/content-budget.ts';
import { type MustacheOptions, renderMustache } from '#heat-bridge/commands/states/mustache.ts';
import { reportOfStates } from '#heat-bridge/commands/states/state-run.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** A state as Salt parses it. */
interface ReadState {
  readonly fun: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** Returns the states for some metadata, in order. */
function statesOf(init: object, sets?: readonly string[]): readonly ReadState[] {
  const { states } = compileStates(parseInitMetadata(init, sets));
  const read = Object.values(states).map((state): ReadState => {
    const [module = ''] = Object.keys(state);
    const [name, ...list] = state[module] as [string, ...Record<string, unknown>[]];
    return { fun: `${module}.${name}`, args: Object.assign({}, ...list) };
  });
  return read.sort((a, b) => Number(a.args.order) - Number(b.args.order));
}

function config(sections: object): object {
  return { config: sections };
}

/** Returns the arguments of a state without those that every state has. */
function argsOf(state: ReadState | undefined): object {
  const { order: _order, failhard: _failhard, ...args } = state?.args ?? {};
  return args;
}

function isRefused(t: ExecutionContext, init: object, reason: RegExp, sets?: string[]): void {
  t.throws(() => statesOf(init, sets), { code: 'ERR_CFN_INIT', message: reason });
}

interface Case {
  readonly name: string;
  readonly init: object;
  readonly configsets?: string;
  readonly expected: { readonly end: string };
}

const fixture = new URL('../../../test/fixtures/cfn-init/cases.json', import.meta.url);
const { cases }: { readonly cases: readonly Case[] } = JSON.parse(readFileSync(fixture, 'utf8'));

for (const { name, init, configsets, expected } of cases) {
  const end = expected.end === 'refused' ? 'is refused' : 'becomes states';
  test(`metadata of the case ${name} ${end}`, (t) => {
    const local = JSON.parse(JSON.stringify(init).replaceAll('@ROOT@', '/srv/case'));
    const compile = (): unknown => statesOf(local, configsets?.split(','));
    if (expected.end === 'refused') t.throws(compile, { code: 'ERR_CFN_INIT' });
    else t.notThrows(compile);
  });
}

// These cases come from tests of heat-cfntools, and have the names of these tests.

for (const [name, manager] of [
  ['test_yum_install', 'yum'],
  ['test_dnf_install', 'dnf'],
  ['test_dnf_install_yum_unavailable', 'yum'],
  ['test_zypper_install', 'zypper'],
  ['test_apt_install', 'apt'],
] as const) {
  test(`${name}: packages are installed only by the minion's own manager`, (t) => {
    const [guard, install] = statesOf(
      config({ packages: { [manager]: { httpd: [], 'mysql-server': '5.5', wordpress: ['3.1'] } } }),
    );
    t.is(guard?.fun, 'test.fail_without_changes');
    t.is(install?.fun, 'pkg.installed');
    const pkgs = ['httpd', { 'mysql-server': '5.5' }, { wordpress: '3.1' }];
    t.deepEqual(argsOf(install), { pkgs });
  });
}

for (const [name, manager, enabled, running, fun] of [
  ['test_services_handler_systemd', 'systemd', 'true', 'true', 'service.running'],
  ['test_services_handler_systemd_disabled', 'systemd', 'false', 'false', 'service.dead'],
  ['test_services_handler_sysv_service_chkconfig', 'sysvinit', 'true', 'true', 'service.running'],
  [
    'test_services_handler_sysv_disabled_service_chkconfig',
    'sysvinit',
    'false',
    'false',
    'service.dead',
  ],
  ['test_services_handler_sysv_systemctl', 'sysvinit', true, true, 'service.running'],
  ['test_services_handler_sysv_disabled_systemctl', 'sysvinit', false, false, 'service.dead'],
  ['test_services_handler_sysv_service_updaterc', 'sysvinit', '1', 'yes', 'service.running'],
  ['test_services_handler_sysv_disabled_service_updaterc', 'sysvinit', '0', 'no', 'service.dead'],
] as const) {
  test(`${name}: a service has the state of its metadata`, (t) => {
    const services = { [manager]: { httpd: { enabled, ensureRunning: running } } };
    const [boot, service] = statesOf(config({ services }));
    t.is(boot?.fun, fun === 'service.running' ? 'service.enabled' : 'service.disabled');
    t.is(service?.fun, fun);
    t.deepEqual([argsOf(boot), argsOf(service)], [{ name: 'httpd' }, { name: 'httpd' }]);
  });
}

test('test_to_boolean: only true, yes and 1 mean true, in any case', (t) => {
  const isIgnored = (ignoreErrors: unknown): boolean => {
    const [state] = statesOf(config({ commands: { a: { command: 'false', ignoreErrors } } }));
    return String(state?.args.name).includes('ignored:');
  };
  for (const yes of ['true', 'True', ' yes ', 'YES', '1', 1, true]) t.true(isIgnored(yes));
  for (const no of ['false', 'no', '0', 0, false, null, '', 'on', 'y']) t.false(isIgnored(no));
});

test('test_command_runner: a text is passed to the shell, including chains and redirections', (t) => {
  const log = path.join(temporaryDirectory(t), 'log');
  const command = `echo a > '${log}' && echo b >> '${log}'; exit 4`;
  const [state] = statesOf(config({ commands: { a: { command } } }));
  t.is(state?.fun, 'cmd.run');
  t.is(spawnSync('/bin/sh', ['-c', String(state?.args.name)]).status, 4);
  t.is(readFileSync(log, 'utf8'), 'a\nb\n');
});

test('test_is_valid_metadata: anything but a map of configs is refused', (t) => {
  for (const bad of [[], { config: 'x' }, { config: [] }, { config: { files: [] } }]) {
    t.throws(() => statesOf(bad), { code: 'ERR_CFN_INIT' }, JSON.stringify(bad));
  }
});

test('test_cfn_init: a file has the content of its metadata', (t) => {
  const [file] = statesOf(config({ files: { '/tmp/foo': { content: 'The Content\n' } } }));
  t.is(file?.fun, 'file.managed');
  t.like(file?.args, { name: '/tmp/foo', contents: 'The Content\n', contents_newline: true });
});

test('test_cfn_init_runs_list_commands_without_shell: arguments are not interpreted', (t) => {
  const log = path.join(temporaryDirectory(t), 'a b');
  const command = ['printf', '%s\\n', "it's $HOME", '`id`', '*', '', '-n', 'a\nb'];
  const [state] = statesOf(config({ commands: { list: { command } } }));
  const { stdout } = spawnSync('/bin/sh', ['-c', String(state?.args.name)]);
  t.is(`${stdout}`, "it's $HOME\n`id`\n*\n\n-n\na\nb\n");
  const [shell] = statesOf(
    config({ commands: { text: { command: `echo a; echo b > '${log}'` } } }),
  );
  t.is(`${spawnSync('/bin/sh', ['-c', String(shell?.args.name)]).stdout}`, 'a\n');
  t.is(readFileSync(log, 'utf8'), 'b\n');
});

test('test_cfn_init_with_ignore_errors_false: a failed command fails the run, and later ones are skipped', (t) => {
  const [state] = statesOf(
    config({ commands: { a: { command: 'exit 3', ignoreErrors: 'false' } } }),
  );
  t.is(state?.args.failhard, true);
  t.is(spawnSync('/bin/sh', ['-c', String(state?.args.name)]).status, 3);
});

test('test_cfn_init_with_ignore_errors_true: a failed command counts as done, and is reported', (t) => {
  const command = { command: ['/no/such/program'], ignoreErrors: 'true', cwd: '/' };
  const [state] = statesOf(config({ commands: { a: command } }));
  const { status, stdout } = spawnSync('/bin/sh', ['-c', String(state?.args.name)]);
  t.is(status, 0);
  t.is(`${stdout}`, 'ignored: exit status 127\n');
});

test('test_apply_sources_empty: no sources, no states', (t) => {
  t.deepEqual(statesOf(config({ sources: {} })), []);
});

for (const [name, url, format] of [
  ['test_apply_sources_github', 'https://github.com/NoSuchProject/tarball/NoSuchTarball', 'tar'],
  ['test_apply_sources_general', 'https://website.no.existe/a.b.c.tar.gz', 'tar'],
  ['test_apply_source_cmd (zip)', 'https://example.org/one.zip', 'zip'],
  ['test_apply_source_cmd (tgz)', 'https://example.org/one.tgz?signature=1', 'tar'],
  ['test_apply_source_cmd (tbz2)', 'https://example.org/one.TBZ2', 'tar'],
  ['test_apply_source_cmd (zipball)', 'https://github.com/a/b/zipball/main', 'zip'],
] as const) {
  test(`${name}: an archive is unpacked over existing files`, (t) => {
    const [source] = statesOf(config({ sources: { '/tmp/x/': url } }));
    t.is(source?.fun, 'archive.extracted');
    const from = { name: '/tmp/x', source: url, archive_format: format };
    t.like(source?.args, { ...from, enforce_toplevel: false, overwrite: true });
  });
}

test('sections run in the order of the AWS guide, and so do package managers', (t) => {
  const found = statesOf(
    config({
      services: { systemd: { web: { enabled: true } } },
      commands: { b: { command: 'true' }, a: { command: 'true' } },
      files: { '/b': { content: '' }, '/a': { content: '' } },
      sources: { '/src': 'http://host/a.tar' },
      users: { web: { uid: '900', groups: ['www'], homeDir: '/srv' } },
      groups: { www: { gid: '45' } },
      packages: {
        python: { six: ['1.0'] },
        rubygems: { rails: ['3.0', '4.0'] },
        apt: { curl: [] },
      },
    }),
  );
  t.deepEqual(
    found.map(({ fun }) => fun),
    [
      ...['test.fail_without_changes', 'pkg.installed', 'gem.installed', 'gem.installed'],
      ...['pip.installed', 'group.present', 'user.present', 'archive.extracted'],
      ...['file.managed', 'file.managed', 'cmd.run', 'cmd.run', 'service.enabled'],
    ],
  );
  t.deepEqual(
    found.filter(({ fun }) => fun === 'file.managed').map(({ args }) => args.name),
    ['/a', '/b'],
  );
  t.true(found.every(({ args }) => args.failhard === true));
});

test('an endlessly nested config gets an error', (t) => {
  const catalog = new CodeCatalog([
    { name: 'site.init', description: 'x', group: 'cfn-init', unsafe: 'i-understand' },
  ]);
  const content = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const deployment = {
    id: 'one',
    name: 'one',
    group: 'cfn-init',
    config: `{"config": {"files": {"/a": {"content": ${content}}}}}`,
    action: 'CREATE',
    inputs: {},
    outputs: [],
    signal: { transport: 'NO_SIGNAL' },
  } as const;
  const resolved = catalog.resolve(deployment, () => true);
  t.like(resolved, { ok: false });
});

test('cyclic and endlessly growing config sets are refused', (t) => {
  const ring = { configSets: { default: [{ ConfigSet: 'a' }], a: [{ ConfigSet: 'default' }] } };
  isRefused(t, ring, /default -> a -> default/);
  const levels = Object.fromEntries(
    Array.from({ length: 40 }, (_, at) => {
      const next = { ConfigSet: `s${at + 1}` };
      return [`s${at}`, at === 39 ? ['config'] : [next, next]];
    }),
  );
  isRefused(t, { configSets: levels, config: {} }, /more than 256 configs/, ['s0']);
});

test('config sets that refer to each other repeatedly are refused, even without configs', (t) => {
  const doubling = Object.fromEntries(
    Array.from({ length: 15 }, (_, at) => {
      const next = { ConfigSet: `s${at + 1}` };
      return [`s${at}`, at === 14 ? [] : [next, next]];
    }),
  );
  isRefused(t, { configSets: doubling }, /more than 1024 entries/, ['s0']);
});

test('a service restarts if one of its files, archives, packages or commands changes', (t) => {
  const found = statesOf(
    config({
      packages: { apt: { nginx: [] } },
      sources: { '/srv/www': 'http://host/a.tgz' },
      files: { '/etc/a': { content: 'a' }, '/etc/b': { content: 'b' } },
      commands: { build: { command: 'true' } },
      services: {
        systemd: {
          nginx: {
            ensureRunning: 'true',
            files: ['/etc/b', '/not/here'],
            sources: ['/srv/www/'],
            packages: { apt: ['nginx'] },
            commands: ['build'],
          },
          other: { enabled: true, files: ['/etc/a'] },
        },
      },
    }),
  );
  const running = found.find(({ fun }) => fun === 'service.running');
  const watched = running?.args.watch as object[];
  t.deepEqual(
    watched.map((it) => Object.keys(it)[0]),
    ['file', 'archive', 'cmd', 'pkg'],
  );
  const restart = found.at(-1);
  t.is(restart?.fun, 'module.wait');
  t.like(restart?.args, { name: 'service.restart', m_name: 'other' });
});

test('no text of metadata becomes an id, a key or a requisite of a state', (t) => {
  const { states } = compileStates(
    parseInitMetadata(config({ commands: { '* or __env__': { command: 'true' } } }), undefined),
  );
  t.deepEqual(Object.keys(states), ['saltbridge-0001']);
});

test('a value that Salt would execute is refused, and encoded as content of a file', (t) => {
  const slot = '__slot__:salt:cmd.run(id)';
  const [, decode] = statesOf(config({ files: { '/a': { content: slot } } }));
  t.is(decode?.fun, 'file.decode');
  t.is(Buffer.from(String(decode?.args.encoded_data), 'base64').toString(), slot);
  const env = { command: 'true', env: { A: slot } };
  isRefused(t, config({ commands: { a: env } }), /must not begin with __slot__/);
  const link = { content: slot, mode: '120644' };
  isRefused(t, config({ files: { '/a': link } }), /must not begin with __slot__/);
});

for (const bad of ['a', '/', '/a/../b', '/a//b', '/a/./b', '/a\nb', '/a\u0000b', '']) {
  test(`the path ${JSON.stringify(bad)} is refused`, (t) => {
    isRefused(t, config({ files: { [bad]: { content: 'x' } } }), /the path must begin with/);
  });
}

for (const bad of ['salt://top.sls', 'file:///etc/shadow', '/etc/shadow', 'ftp://host/a.tar']) {
  test(`the address ${bad} is refused`, (t) => {
    isRefused(t, config({ files: { '/a': { source: bad } } }), /http/);
    isRefused(t, config({ sources: { '/a': bad } }), /http/);
  });
}

const odd: readonly (readonly [string, object, RegExp])[] = [
  ['a package that is an option', { packages: { apt: { '-o=x': [] } } }, /name of a package/],
  [
    'a version with an operator',
    { packages: { apt: { a: ['>=1'] } } },
    /a version must begin with/,
  ],
  [
    'two versions of one package',
    { packages: { apt: { a: ['1', '2'] } } },
    /give only the version/,
  ],
  ['a user with a colon', { users: { 'a:b': {} } }, /name of a user/],
  ['a service that is a path', { services: { systemd: { '../a': {} } } }, /name of a service/],
  ['an unknown field', { files: { '/a': { content: '', selinux: 'x' } } }, /unknown field/],
  [
    'credentials of AWS',
    { files: { '/a': { source: 'http://a/', authentication: 's3' } } },
    /auth/,
  ],
  ['an unknown section', { package: {} }, /unknown field/],
  ['invalid base64', { files: { '/a': { content: '%', encoding: 'base64' } } }, /base64/],
  ['an invalid variable', { commands: { a: { command: 'x', env: { 'A=B': '' } } } }, /variable/],
  ['an environment of maps', { commands: { a: { command: 'x', env: { A: {} } } } }, /text/],
];

for (const [what, sections, reason] of odd) {
  test(`metadata with ${what} is refused`, (t) => {
    isRefused(t, config(sections), reason);
  });
}

test('services that watch too many states are refused', (t) => {
  const paths = Array.from({ length: 100 }, (_, at) => `/f${at}`);
  const files = Object.fromEntries(paths.map((it) => [it, { content: '' }]));
  const names = Array.from({ length: 20 }, (_, at) => `s${at}`);
  const service = { ensureRunning: true, files: paths };
  const services = { systemd: Object.fromEntries(names.map((it) => [it, service])) };
  const repeated = (count: number): object => ({
    configSets: { default: Array.from({ length: count }, () => 'one') },
    one: { files, services },
  });
  isRefused(t, repeated(3), /the services of the configuration watch more than 10000 states/);
  t.notThrows(() => statesOf(repeated(2)));
});

test('a run with too many states or bytes is refused', (t) => {
  const many = Object.fromEntries(
    Array.from({ length: 2_001 }, (_, at) => [`c${at}`, { command: 'true' }]),
  );
  isRefused(t, config({ commands: many }), /more than 2000 Salt states/);
  const large = Object.fromEntries(
    Array.from({ length: 5 }, (_, at) => [`/f${at}`, { content: 'x'.repeat(1_000_000) }]),
  );
  isRefused(t, config({ files: large }), /more than \d+ bytes in total/);
});

test('the files of a run share one limit of bytes and of tags', (t) => {
  const ten = Array.from({ length: 10 }, () => 1);
  const files = (count: number, content: string): object =>
    config({
      files: Object.fromEntries(
        Array.from({ length: count }, (_, at) => [`/f${at}`, { content, context: { a: ten } }]),
      ),
    });
  const depth = (levels: number, text: string): string =>
    `${'{{#a}}'.repeat(levels)}${text}${'{{/a}}'.repeat(levels)}`;
  // A file renders 2,000 bytes 1,000 times, or 12,221 tags without output.
  isRefused(t, files(3, depth(3, 'x'.repeat(2_000))), /: content: .* more than 4194304 bytes/);
  isRefused(t, files(9, depth(4, '')), /: content: .* render more than 100000 tags/);
});

test('a config that is named often is read once', (t) => {
  let reads = 0;
  const files = {};
  Object.defineProperty(files, '/a', {
    enumerable: true,
    get: () => {
      reads += 1;
      return { content: 'a' };
    },
  });
  const init = {
    configSets: { default: Array.from({ length: 100 }, () => 'one') },
    one: { files },
  };
  t.is(statesOf(init).length, 100);
  t.is(reads, 1);
});

test('a service watches each state once, and the watches of a run are limited', (t) => {
  const names = Array.from({ length: 1_500 }, (_, at) => `/f${at}`);
  const files = Object.fromEntries(names.map((name) => [name, { content: '' }]));
  const often = { ensureRunning: true, files: [...names, ...names, ...names] };
  const one = statesOf(config({ files, services: { systemd: { web: often } } }));
  const watched = one.at(-1)?.args.watch;
  t.is(Array.isArray(watched) ? watched.length : 0, names.length);
  const services = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`s${at}`, often]));
  isRefused(t, config({ files, services: { systemd: services } }), /watch more than 10000 states/);
});

test('labels of states count as bytes of the run', (t) => {
  const commands = Object.fromEntries(
    Array.from({ length: 1_000 }, (_, at) => [`c${at}`, { command: 'true' }]),
  );
  const name = 'n'.repeat(5_000);
  isRefused(
    t,
    { configSets: { default: [name] }, [name]: { commands } },
    /more than \d+ bytes in total/,
  );
});

test('bytes that a state would change are written in base64', (t) => {
  for (const content of ['a\r\nb', 'a\u2028b', 'a\u0085b', 'a\fb']) {
    const [first, second] = statesOf(config({ files: { '/a': { content, mode: '000600' } } }));
    t.like(first?.args, { replace: false, mode: '0600' });
    t.is(Buffer.from(String(second?.args.encoded_data), 'base64').toString(), content);
  }
  const binary = { content: '/wD+', encoding: 'base64' };
  t.is(statesOf(config({ files: { '/a': binary } }))[1]?.args.encoded_data, '/wD+');
});

test('a command has only the environment of its metadata, and no value of it in its arguments', (t) => {
  const command = { command: 'echo "$A-$B-$HOME"', env: { A: `it's "a"`, B: 1 }, cwd: '/' };
  const [state] = statesOf(config({ commands: { a: command } }));
  t.false(String(state?.args.name).includes("it's"));
  const { stdout } = spawnSync('/bin/sh', ['-c', String(state?.args.name)], {
    env: { ...process.env, ...readEnvironment(state?.args.env) },
  });
  t.is(`${stdout}`, `it's "a"-1-\n`);
});

test('a missing directory of a test does not skip its command, which then fails', (t) => {
  const cwd = path.join(temporaryDirectory(t), 'missing');
  const commands = { a: { command: 'true', test: 'exit 1', cwd, env: { A: 'a', B: 'b' } } };
  const [state] = statesOf(config({ commands }));
  const [onlyif] = (state?.args.onlyif ?? []) as string[];
  t.is(spawnSync('/bin/sh', ['-c', String(onlyif)]).status, 0);
  t.not(spawnSync('/bin/sh', ['-c', String(state?.args.name)]).status, 0);
});

/**
 * Parses environment variables like Salt. If an entry has several, the result is empty
 * [salt.utils.data].
 */
function readEnvironment(env: unknown): NodeJS.ProcessEnv {
  const entries = (env ?? []) as NodeJS.ProcessEnv[];
  return entries.every((it) => Object.keys(it).length === 1) ? Object.assign({}, ...entries) : {};
}

test('~ in a directory is replaced by the home of the user', (t) => {
  const text = commandText({ name: 'a', command: 'pwd', cwd: "~/it's", ignoreErrors: false });
  const home = temporaryDirectory(t);
  spawnSync('mkdir', [path.join(home, "it's")]);
  const { stdout } = spawnSync('/bin/sh', ['-c', text], { env: { ...process.env, HOME: home } });
  t.is(`${stdout}`, `${home}/it's\n`);
});

const templates: readonly (readonly [string, string, object, string])[] = [
  ['variables', 'a={{ a }}, {{b.c}}, {{none}}', { a: 1, b: { c: 'x' } }, 'a=1, x, '],
  [
    'escaped and raw variables',
    '{{a}} {{{a}}} {{&a}}',
    { a: `<"&'>` },
    `&lt;&quot;&amp;&#x27;&gt; <"&'> <"&'>`,
  ],
  ['sections', '{{#a}}{{n}},{{/a}}', { a: [{ n: 1 }, { n: 2 }] }, '1,2,'],
  ['the iterated value', '{{#a}}{{.}};{{/a}}', { a: ['x', 'y'] }, 'x;y;'],
  ['inverted sections', '{{^a}}none{{/a}}{{^b}}some{{/b}}', { a: [], b: true }, 'none'],
  ['lines of sections', 'a\n{{#a}}\nb\n{{/a}}\nc\n', { a: true }, 'a\nb\nc\n'],
  ['comments', 'a\n  {{! nothing }}\nb{{! x }}c', {}, 'a\nbc'],
  ['values that look like templates', '{{a}}', { a: '{{b}}', b: 'x' }, '{{b}}'],
  ['names that objects inherit', '{{constructor}}{{a.length}}', { a: 'x' }, ''],
];

for (const [what, template, context, expected] of templates) {
  test(`Mustache renders ${what}`, (t) => {
    const options = { escapesHtml: true, place: 'a', budget: new ContentBudget() };
    t.is(renderMustache(template, { ...context }, options), expected);
  });
}

test('Mustache that is invalid, or that grows endlessly, is refused', (t) => {
  const within = (bytes: number): MustacheOptions => {
    const budget = new ContentBudget({ bytes, tags: 100_000 });
    return { escapesHtml: true, place: 'a file', budget };
  };
  for (const bad of ['{{#a}}', '{{/a}}', '{{> a}}', '{{=<% %>=}}', '{{}}', '{{#a}}{{/b}}']) {
    t.throws(() => renderMustache(bad, {}, within(1000)), { message: /^a file: / });
  }
  const ten = Array.from({ length: 10 }, () => 1);
  const nested = `${'{{#a}}'.repeat(9)}xxxxxxxxxx${'{{/a}}'.repeat(9)}`;
  t.throws(() => renderMustache(nested, { a: ten }, within(1000)), {
    message: /(?:more than|exceed) 1000/,
  });
  const silent = nested.replaceAll('x', '');
  t.throws(() => renderMustache(silent, { a: ten }, within(1000)), {
    message: /more than 100000 tags/,
  });
  // If the work grew faster than the length of the text, this would exceed AVA's time limit.
  for (const text of ['{{!}}', '{{#a}}{{/a}}']) {
    t.is(renderMustache(text.repeat(250_000 / text.length), {}, within(1_000_000)), '');
  }
  for (const text of ['{{', ' {{!}} ']) {
    t.notThrows(() => renderMustache(text.repeat(250_000 / text.length), {}, within(1_000_000)));
  }
});

test('a run succeeds if each state was applied', (t) => {
  const labels = { 'saltbridge-0001': 'one', 'saltbridge-0002': 'two', 'saltbridge-0003': 'three' };
  const result = (id: string, more: object): object => ({
    [`cmd_|-${id}_|-x_|-run`]: { __id__: id, result: true, changes: {}, comment: '', ...more },
  });
  const one = result('saltbridge-0001', { changes: { stdout: 'hello' } });
  const two = result('saltbridge-0002', {});
  const failed = { result: false, comment: 'it failed', changes: { stderr: 'why' } };
  t.deepEqual(reportOfStates({ ...one, ...two, ...result('saltbridge-0003', {}) }, labels), {
    isSuccess: true,
    stdout: 'one: changed\nhello\ntwo: unchanged\nthree: unchanged',
    stderr: '',
  });
  t.deepEqual(reportOfStates({ ...one, ...result('saltbridge-0002', failed) }, labels), {
    isSuccess: false,
    stdout: 'one: changed\nhello\ntwo: failed\nthree: not applied',
    stderr: 'two: it failed\nwhy',
  });
  t.like(reportOfStates({ ...one, ...two }, labels), { isSuccess: false });
  for (const nothing of [{}, [], null, '', ['The function "state.apply" is running']]) {
    t.false(reportOfStates(nothing, labels).isSuccess);
  }
});
