import { chmodSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { Compile } from 'typebox/compile';
import {
  ConfigError,
  configJsonSchema,
  findUnserved,
  LiveConfig,
  loadMasterConfig,
  type MasterConfig,
  type MasterOptions,
  optionsHeading,
  optionsPage,
  resolveMasterConfig,
} from '#config';
import { anyValue, notNeeded, notServed, notYet } from '#config/advice.ts';
import { reloadableLimits, reloadableOptions } from '#config/live-config.ts';
import { loginOptions } from '#config/login-options.ts';
import type { OptionRow } from '#config/option.ts';
import { optionSections } from '#config/options.ts';
import { limitOptions, ownOptions } from '#config/own-options.ts';
import { parseConfigFile } from '#config/read-files.ts';
import { rightsOptions, saltOptions } from '#config/salt-options.ts';
import { parseValue } from '#config/schema.ts';
import { unservedNames } from '#config/unserved-options.ts';
import { configDirectory } from './files.ts';

const sample = `
##### Primary configuration settings #####
##########################################
# Per default the master loads all files of master.d.
#default_include: master.d/*.conf

# Address of the interface to bind to:
interface: 127.0.0.1

# Ports for publications and requests:
publish_port: 14505
ret_port: 14506
#user: root

auto_accept: no
keep_jobs: 2
timeout: 7.5
log_level: WARNING
pki_dir:
worker_threads: 3
file_roots:
  base:
    - /srv/salt

saltbridge:
  state_dir: /var/lib/bridge
  limits:
    burst: 10
`;

test("a file in the style of Salt's default file is accepted", async (t) => {
  const directory = configDirectory(t, { master: sample });
  const { config, warnings, files } = await loadMasterConfig(directory);
  t.like(config, {
    interface: '127.0.0.1',
    publishPort: 14505,
    retPort: 14506,
    autoAccept: false,
    keepJobsSeconds: 7200,
    timeout: 7.5,
    logLevel: 'warning',
    pkiDir: '/etc/salt/pki/master',
    confFile: path.join(directory, 'master'),
    stateDir: '/var/lib/bridge',
    socket: '/var/run/salt/master/saltbridge.sock',
    requestServerTtl: 300,
    allowMinionKeyRevoke: false,
  });
  t.is(config.limits.burst, 10);
  t.is(config.limits.requestsPerSecond, 50);
  t.deepEqual(files, [path.join(directory, 'master')]);
  t.deepEqual(
    warnings.map(({ kind, key, line }) => [kind, key, line]),
    [['not-needed', 'worker_threads', 20]],
  );
});

test('a missing main file causes a warning, and master.d is still read', async (t) => {
  const directory = configDirectory(t, { 'master.d/a.conf': 'ret_port: 5000' });
  const { config, warnings } = await loadMasterConfig(directory);
  t.is(config.retPort, 5000);
  t.deepEqual(
    warnings.map(({ kind, file }) => [kind, file]),
    [['missing-file', path.join(directory, 'master')]],
  );
});

test('later files take precedence: the main file, then master.d in order, then include', async (t) => {
  const directory = configDirectory(t, {
    master: 'include: [more/*.conf, last]\ntimeout: 1\nloop_interval: 1\nid: a\nuser: main\n',
    'master.d/2.conf': 'timeout: 3\nloop_interval: 3\n',
    'master.d/1.conf': 'timeout: 2\nid: b\n',
    'master.d/.hidden.conf': 'timeout: 99\n',
    'master.d/other.txt': 'timeout: 99\n',
    'more/x.conf': 'include: deeper\nloop_interval: 4\n',
    'more/deeper': 'loop_interval: 5\n',
    last: 'sock_dir: /s\n',
  });
  const { config, files } = await loadMasterConfig(directory);
  t.like(config, { timeout: 3, id: 'b', loopInterval: 5, sockDir: '/s' });
  t.deepEqual(
    files.map((file) => path.relative(directory, file)),
    ['master', 'master.d/1.conf', 'master.d/2.conf', 'more/x.conf', 'more/deeper', 'last'],
  );
});

test('our own section can be split over several files', async (t) => {
  const directory = configDirectory(t, {
    master: 'saltbridge: {publish_serial_block: 5, limits: {burst: 5}}',
    'master.d/a.conf': 'saltbridge: {limits: {request_bytes: 2048}}',
    'master.d/b.conf': 'saltbridge: {limits: {return_bytes: 4096}}',
  });
  const { config } = await loadMasterConfig(directory);
  t.is(config.publishSerialBlock, 5);
  t.like(config.limits, { burst: 5, requestBytes: 2048, returnBytes: 4096 });
});

test('an include without matches is a warning, and an include of itself is an error', async (t) => {
  const nothing = configDirectory(t, { master: 'include: nowhere/*.conf' });
  const { warnings } = await loadMasterConfig(nothing);
  t.like(warnings[0], { kind: 'nothing-included', line: 1, key: 'include' });
  const itself = configDirectory(t, { master: 'include: a', a: 'include: b', b: '\ninclude: ./a' });
  const error = await t.throwsAsync(loadMasterConfig(itself), {
    instanceOf: ConfigError,
    code: 'ERR_CONFIG_READ',
  });
  t.like(error, { file: path.join(itself, 'b'), line: 2, key: 'include' });
});

test('files are parsed as Salt parses them', async (t) => {
  const directory = configDirectory(t, {
    master:
      'auto_accept: yes\njob_cache: Off\npublish_port: 010\nuser: 1e3\nlog_file: 2024-01-02\nid: 17\nroot_dir: &x /srv\nmaster_id: *x',
  });
  const { config } = await loadMasterConfig(directory);
  t.like(config, {
    autoAccept: true,
    jobCache: false,
    publishPort: 10,
    user: '1e3',
    id: '17',
    masterId: '/srv',
  });
  t.true(config.logFile.endsWith('2024-01-02'));
});

test('a block on the last line of a file has a line break only if the file ends with one', (t) => {
  for (const [text, value] of [
    ['id: |\n  a', 'a'],
    ['id: |\n  a\n', 'a\n'],
    ['id: >-\n  a\n  b', 'a b'],
  ] as const) {
    t.is(parseConfigFile(text, 'master').get('id')?.value, value, text);
  }
});

const broken: readonly (readonly [title: string, text: string, line: number])[] = [
  ['a key that stands twice', 'timeout: 1\ntimeout: 2\n', 2],
  ['text that is no YAML', 'timeout: 1\n@id: x\n', 2],
  ['a tag', 'timeout: 1\nid: !!python/object:os.system secret\n', 2],
  ['a list in place of a map', '- timeout\n', 1],
  ['two documents', 'timeout: 1\n---\ntimeout: 2\n', 2],
];

for (const [title, text, line] of broken) {
  test(`${title} is refused with its line`, async (t) => {
    const directory = configDirectory(t, { master: text });
    const error = await t.throwsAsync(loadMasterConfig(directory), {
      instanceOf: ConfigError,
      code: 'ERR_CONFIG_SYNTAX',
    });
    t.is(error?.line, line);
    t.is(error?.file, path.join(directory, 'master'));
    t.false(error?.message.includes('secret'));
  });
}

test('the error for a value names place, key and type, but not the value', async (t) => {
  const directory = configDirectory(t, { 'master.d/a.conf': '\nkey_pass: [hunter2]\n' });
  const error = await t.throwsAsync(loadMasterConfig(directory), {
    instanceOf: ConfigError,
    code: 'ERR_OPTION_TYPE',
  });
  const file = path.join(directory, 'master.d/a.conf');
  t.is(
    error?.message,
    `${file}:2: key_pass: found a list, expected the passphrase itself (sdb:// is not supported)`,
  );
});

test('a misspelt option of ours is refused with the most similar name', async (t) => {
  const inner = configDirectory(t, { master: 'saltbridge:\n  limits:\n    brust: 5\n' });
  const error = await t.throwsAsync(loadMasterConfig(inner), {
    instanceOf: ConfigError,
    code: 'ERR_OPTION_UNKNOWN',
  });
  t.is(error?.line, 3);
  t.is(error?.key, 'saltbridge:limits:brust');
  t.regex(error?.message ?? '', /did you mean burst\?/);
  const outer = configDirectory(t, { master: 'saltbridge: {stat_dir: /x}' });
  await t.throwsAsync(loadMasterConfig(outer), { message: /did you mean state_dir\?/ });
  const scalar = configDirectory(t, { master: 'saltbridge: 5' });
  await t.throwsAsync(loadMasterConfig(scalar), { code: 'ERR_OPTION_TYPE' });
});

test('an unknown option causes a warning with its name', async (t) => {
  const directory = configDirectory(t, {
    master: 'publsh_port: 1\n__proto__: {a: 1}\nmysql.host: x',
  });
  const { warnings, config } = await loadMasterConfig(directory);
  t.deepEqual(
    warnings.map(({ kind, key }) => [kind, key]),
    [
      ['unknown-option', 'publsh_port'],
      ['unknown-option', '__proto__'],
      ['not-served', 'mysql.host'],
    ],
  );
  t.is(config.publishPort, 4505);
});

test('the report names each unsupported option with an alternative', async (t) => {
  const master =
    'hgfs_remotes: [https://example.org/x]\nworker_threads: 8\nmine_interval: 5\nlog_file: file:///dev/log\n';
  const directory = configDirectory(t, { master });
  const file = path.join(directory, 'master');
  const { warnings } = await loadMasterConfig(directory);
  t.deepEqual(
    warnings.map(({ kind }) => kind),
    ['not-served', 'not-needed', 'not-needed', 'not-served'],
  );
  const [hg = '', threads = '', mine = '', log = ''] = warnings.map(({ message }) => message);
  t.true(hg.startsWith(`${file}:1: hgfs_remotes is not supported: `) && hg.includes('file_roots'));
  t.true(threads.startsWith(`${file}:2: worker_threads has no effect: `));
  t.is(mine, `${file}:3: mine_interval is an option of minions; masters do not read it`);
  t.true(log.startsWith(`${file}:4: log_file names a log service`));
});

test('values without effect cause no warning, such as defaults and empty values', async (t) => {
  const master =
    'worker_threads: 5\nfile_recv: no\nengines: []\nhttp_max_body: 107374182400\nssl:\n' +
    'gitfs_ref_types: [branch, tag, sha]\nexternal_auth: {}\nmaster_roots: {base: [/srv/salt-master]}\n';
  const { warnings } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(warnings, []);
});

test('a map without a value in a list of modules is compared like any other entry', async (t) => {
  const master = 'engines: [{slack: }]\n';
  const { warnings } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(
    warnings.map(({ key }) => key),
    ['engines'],
  );
});

test('options of other Salt programs are accepted', async (t) => {
  const master = 'saltgui_public_pillars: [a]\nsaltgui: 5\n';
  const { warnings } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(
    warnings.map(({ key }) => key),
    ['saltgui'],
  );
});

test('open mode requires a confirmation', async (t) => {
  const open = configDirectory(t, { master: 'timeout: 5\nopen_mode: true' });
  const error = await t.throwsAsync(loadMasterConfig(open), {
    instanceOf: ConfigError,
    code: 'ERR_OPTION_CONFLICT',
  });
  t.is(error?.line, 2);
  const confirmed = configDirectory(t, {
    master: 'open_mode: true\nsaltbridge: {confirm_open_mode: true}',
  });
  t.true((await loadMasterConfig(confirmed)).config.openMode);
});

test('an unreadable file is refused with its cause', async (t) => {
  const directory = configDirectory(t, { 'master.d/x.conf/y': '' });
  chmodSync(directory, 0o700);
  const error = await t.throwsAsync(loadMasterConfig(directory), {
    instanceOf: ConfigError,
    code: 'ERR_CONFIG_READ',
  });
  t.true(error?.cause instanceof Error);
});

test('nodegroups are texts or lists of words', async (t) => {
  const master =
    'nodegroups:\n  web: G@roles:web and not web7\n  list: [web1, web2]\n  both:\n    - N@web\n    - or\n    - 7\n';
  const { config, warnings } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(
    { ...config.nodegroups },
    { web: 'G@roles:web and not web7', list: ['web1', 'web2'], both: ['N@web', 'or', '7'] },
  );
  t.deepEqual(warnings, []);
});

test('a single letter is text, as in Salt, and not a boolean', async (t) => {
  const master = 'id: y\nnodegroups: {n: Y}\nauto_accept: yes\nopen_mode: off\n';
  const { config } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual([config.id, { ...config.nodegroups }], ['y', { n: 'Y' }]);
  t.deepEqual([config.autoAccept, config.openMode], [true, false]);
  await t.throwsAsync(loadMasterConfig(configDirectory(t, { master: 'auto_accept: n\n' })), {
    message: /auto_accept: found a text, expected true or false/,
  });
});

test('a nodegroup that contains itself causes a warning with the cycle', async (t) => {
  const master = 'nodegroups:\n  a: N@b or web1\n  b: [N@a]\n';
  const { warnings } = await loadMasterConfig(configDirectory(t, { master }));
  const [first, second] = warnings;
  t.regex(String(first?.message), /master:2: nodegroups:a: .* a > b > a; it matches no minion$/);
  t.deepEqual([first?.kind, second?.line], ['unusable', 3]);
});

for (const definition of ['7', '{a: b}', '[[a]]']) {
  test(`${definition} is not a valid nodegroup`, async (t) => {
    const master = `nodegroups:\n  a: ${definition}\n`;
    await t.throwsAsync(loadMasterConfig(configDirectory(t, { master })), {
      code: 'ERR_OPTION_TYPE',
    });
  });
}

test('without options everything has its default, and the configuration is immutable', (t) => {
  const config = resolveMasterConfig();
  t.like(config, { publishPort: 4505, retPort: 4506, logFile: '/var/log/salt/master' });
  t.is(config.limits.requestBytes, 16_777_216);
  t.true(Object.isFrozen(config) && Object.isFrozen(config.limits));
});

test('options of a program are checked like those of a file', (t) => {
  // @ts-expect-error a text is no port
  t.throws(() => resolveMasterConfig({ publishPort: '4505' }), {
    instanceOf: ConfigError,
    code: 'ERR_OPTION_TYPE',
    message: 'options: publishPort: found a text, expected a whole number from 0 to 65535',
  });
  t.throws(() => resolveMasterConfig({ retPort: 65_536 }), { code: 'ERR_OPTION_TYPE' });
  t.throws(() => resolveMasterConfig({ openMode: true }), { code: 'ERR_OPTION_CONFLICT' });
  t.throws(() => resolveMasterConfig({ limits: { requestBytes: 100_000_001 } }), {
    code: 'ERR_OPTION_TYPE',
  });
  t.throws(() => resolveMasterConfig({ publishPort: 4506 }), { code: 'ERR_OPTION_CONFLICT' });
  t.is(resolveMasterConfig({ publishPort: 0, retPort: 0 }).retPort, 0);
});

test('a cluster has a name and NATS servers, and each of its options is checked', (t) => {
  const cluster = { name: 'prod', nats: ['nats://10.0.0.1:4222', 'tls://nats.example:4222'] };
  t.deepEqual(resolveMasterConfig({ cluster }).cluster, cluster);
  t.is(resolveMasterConfig().cluster, null);
  for (const [wrong, expected] of [
    [{ name: 'prod' }, /nats must be set/],
    [{ nats: cluster.nats }, /name must be set/],
    [{ ...cluster, name: 'a b' }, /1 to 64 letters/],
    [{ ...cluster, nats: ['http://10.0.0.1'] }, /an address such as nats:/],
    [{ ...cluster, acknowledge: 'secnd' }, /did you mean second/],
    [{ ...cluster, secretFile: 'secret' }, /an absolute path/],
    [{ ...cluster, membr: 'a' }, /did you mean member/],
    [{ ...cluster, replicas: 9 }, /1 to 5/],
    [{ ...cluster, user: 'a', nkeyFile: '/a' }, /user and nkey_file exclude each other/],
    [{ ...cluster, nkeyFile: 'a' }, /an absolute path/],
  ] as const) {
    const given = { cluster: wrong } as unknown as Partial<MasterOptions>;
    t.throws(() => resolveMasterConfig(given), { code: 'ERR_OPTION_TYPE', message: expected });
  }
});

test('ports for relays have unique ports and names of relays', (t) => {
  const relay = { publishPort: 4515, retPort: 4516, from: ['192.0.2.7', '198.51.100.0/28'] };
  t.deepEqual(resolveMasterConfig({ relay }).relay, relay);
  t.is(resolveMasterConfig().relay, null);
  for (const [wrong, message] of [
    [{ publishPort: 1, retPort: 2 }, /from must be set/],
    [
      { ...relay, from: ['somewhere'] },
      /from\[0\]: found a text, expected an address, or a network/,
    ],
    [{ ...relay, from: [] }, /a list of addresses and networks/],
    [{ ...relay, retPort: 65_536 }, /0 to 65535/],
    [{ ...relay, form: [] }, /did you mean from/],
  ] as const) {
    const given = { relay: wrong } as unknown as Partial<MasterOptions>;
    t.throws(() => resolveMasterConfig(given), { code: 'ERR_OPTION_TYPE', message });
  }
  for (const [more, message] of [
    [{ relay: { ...relay, retPort: 4506 } }, /relay:ret_port of zeromq use the same port/],
    [{ relay, transport: 'tcp', ssl: { certfile: '/x' } }, /cannot be used with ssl/],
  ] as const) {
    t.throws(() => resolveMasterConfig(more), { code: 'ERR_OPTION_CONFLICT', message });
  }
});

test('an unknown name is refused, including names of Object.prototype', (t) => {
  const wrong = { publisPort: 1 } as Partial<MasterOptions>;
  t.throws(() => resolveMasterConfig(wrong), {
    instanceOf: ConfigError,
    code: 'ERR_OPTION_UNKNOWN',
    message: /did you mean publishPort\?/,
  });
  const inherited = { toString: 1 } as unknown as Partial<MasterOptions>;
  t.throws(() => resolveMasterConfig(inherited), { code: 'ERR_OPTION_UNKNOWN' });
});

test('undefined means that an option is not set', (t) => {
  const options = { publishPort: undefined } as unknown as Partial<MasterOptions>;
  t.is(resolveMasterConfig(options).publishPort, 4505);
});

test('root_dir is added to paths once', (t) => {
  const config = resolveMasterConfig({
    rootDir: '/srv/test',
    pkiDir: '/srv/test/keys',
    cachedir: 'cache',
    autosignFile: '/etc/autosign',
    logFile: 'file:///dev/log',
  });
  t.like(config, {
    pkiDir: '/srv/test/keys',
    cachedir: '/srv/test/cache',
    autosignFile: '/srv/test/etc/autosign',
    logFile: 'file:///dev/log',
    stateDir: '/srv/test/var/lib/saltbridge',
  });
});

test('a socket directory with a path that is too long is moved into the cache directory', (t) => {
  const long = resolveMasterConfig({ cachedir: '/c', sockDir: '/var/run/salt' });
  t.is(long.sockDir, '/c/.salt-unix');
  t.is(long.socket, '/c/.salt-unix/saltbridge.sock');
  t.is(resolveMasterConfig({ cachedir: '/c', sockDir: '/var/run/abc' }).sockDir, '/var/run/abc');
  t.is(resolveMasterConfig({ socket: '/run/x.sock' }).socket, '/run/x.sock');
});

/** Returns another value of the same type. */
function other(value: unknown): unknown {
  if (typeof value === 'boolean') return !value;
  if (typeof value === 'number') return value + 1;
  return typeof value === 'object' && value !== null ? { ...value, other: 'other' } : 'other';
}

function allOther(config: MasterConfig): MasterConfig {
  const { limits, eauth, ...rest } = config;
  const change = (values: object): object =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, other(value)]));
  return { ...change(rest), limits: change(limits), eauth: change(eauth) } as MasterConfig;
}

test('only reloadable options apply at once', async (t) => {
  const before = resolveMasterConfig();
  const next = allOther(before);
  const live = new LiveConfig(before);
  await live.replace(next);
  const reloadable = new Set<string>([...reloadableOptions, ...reloadableLimits]);
  const names = Object.keys({ ...saltOptions, ...ownOptions }) as (keyof MasterConfig)[];
  for (const name of names) {
    t.deepEqual(live.all[name], (reloadable.has(name) ? next : before)[name], name);
  }
  for (const name of Object.keys(limitOptions) as (keyof MasterConfig['limits'])[]) {
    t.is(live.all.limits[name], (reloadable.has(name) ? next : before).limits[name], name);
  }
});

test('the report names options as in files, including all that require a restart', async (t) => {
  const before = resolveMasterConfig();
  const live = new LiveConfig(before);
  const next = {
    ...before,
    timeout: 9,
    retPort: 5000,
    stateDir: '/elsewhere',
    nodegroups: { web: 'web*' },
    limits: { ...before.limits, burst: 7, requestBytes: 2048 },
  };
  const needRestart = ['ret_port', 'saltbridge:state_dir', 'saltbridge:limits:request_bytes'];
  t.deepEqual(await live.replace(next), {
    applied: ['timeout', 'nodegroups', 'saltbridge:limits:burst'],
    needRestart,
  });
  t.deepEqual(await live.replace(next), { applied: [], needRestart });
  t.deepEqual((await live.replace(before)).needRestart, []);
});

const configurationPage = readFileSync(
  new URL('../../../docs/configuration.md', import.meta.url),
  'utf8',
);

test('docs/configuration.md contains the generated table of all options', (t) => {
  const [, table = ''] = configurationPage.split(optionsHeading);
  t.is(`${optionsHeading}${table}`, optionsPage(), 'run: node scripts/options-doc.js');
});

test('docs/configuration.md lists the reloadable options', async (t) => {
  const rows = [...configurationPage.matchAll(/^\| `([^`]+)` \|.* \| (.*) \|$/gm)];
  const listed = rows.filter(([, , reload]) => reload !== '').map(([, name]) => name);
  const before = resolveMasterConfig();
  const { applied } = await new LiveConfig(before).replace(allOther(before));
  // The options of the policy are compared as one value.
  const withoutPolicy = listed.filter((name) => !name?.startsWith('saltbridge:acl:'));
  t.deepEqual(withoutPolicy.sort(), [...applied].sort());
});

test('the JSON Schema has every option, and accepts the defaults that it shows', (t) => {
  const text = JSON.stringify(configJsonSchema());
  for (const { options } of optionSections) {
    for (const { name } of Object.values(options)) t.true(text.includes(`"${name}":`), name);
  }
  const check = Compile(JSON.parse(text));
  t.true(check.Check({ publish_port: 4505, saltbridge: { limits: { burst: 1 }, cluster: null } }));
  t.false(check.Check({ publish_port: 'x' }));
  t.false(check.Check({ saltbridge: { stat_dir: '/x' } }));
});

test('the current configuration can only be replaced', (t) => {
  const { all, current, fixed } = new LiveConfig(resolveMasterConfig());
  for (const options of [all, current]) {
    t.throws(() => Object.assign(options, { timeout: 1 }), { instanceOf: TypeError });
    t.throws(() => Object.assign(options.limits, { burst: 1 }), { instanceOf: TypeError });
  }
  t.throws(() => Object.assign(fixed, { retPort: 1 }), { instanceOf: TypeError });
  t.throws(() => Object.assign(fixed.limits, { requestBytes: 1 }), { instanceOf: TypeError });
});

// Tests that every option of Salt's master is supported, or has advice about an alternative.

interface SaltOption {
  /** Names of Python types. Absent if Salt does not declare types. */
  readonly type?: readonly string[];
  readonly default?: unknown;
}

const fixture = new URL('../../../test/fixtures/salt-master-options.json', import.meta.url);
const parsed: { readonly options: Readonly<Record<string, SaltOption>> } = JSON.parse(
  readFileSync(fixture, 'utf8'),
);
const salts = Object.entries(parsed.options);
const served = new Map(
  Object.values<OptionRow>({ ...saltOptions, ...rightsOptions, ...loginOptions }).map((row) => [
    row.name,
    row,
  ]),
);
const usual = new Map(
  [...notServed, ...notYet, ...notNeeded].flatMap(({ options }) => Object.entries(options)),
);

/**
 * Options whose default differs from that of Salt. docs/compatibility/configuration.md has the
 * reasons.
 */
const ourDefaults = new Map<string, unknown>([
  ['allow_minion_key_revoke', false],
  ['netapi_enable_clients', null],
  ['request_server_ttl', 300],
  // A file turns this option off with `false`, or by omitting the option.
  ['ssl', false],
]);

/** Values of each Python type. */
const examples: Readonly<Record<string, unknown>> = {
  bool: true,
  float: 1.5,
  int: 4096,
  dict: new Map(),
  str: 'text',
};

test('the fixture has the options of Salt', (t) => {
  t.true(salts.length > 340);
});

test('every option of Salt is either served or has advice', (t) => {
  const included = ['include', 'default_include'];
  for (const [name] of salts.filter(([known]) => !included.includes(known))) {
    t.is(Number(served.has(name)) + Number(usual.has(name)), 1, name);
  }
});

for (const [name, { default: salt }] of salts) {
  const row = served.get(name);
  if (row === undefined || salt === undefined) continue;
  test(`${name} has Salt's default, or the documented one`, (t) => {
    t.deepEqual(row.default, ourDefaults.has(name) ? ourDefaults.get(name) : salt);
    if (salt !== null) t.deepEqual(parseValue(row.schema, salt), salt);
  });
}

test('options have the types of Salt', (t) => {
  const closed =
    /^(hash_type|log_level(_logfile)?|pillar_source_merging_strategy|publish_signing_algorithm|ssl|top_file_merging_strategy|transport)$/;
  for (const [name, { type = [] }] of salts) {
    const row = served.get(name);
    if (row === undefined || closed.test(name)) continue;
    const taken = type.filter((one) => parseValue(row.schema, examples[one]) !== undefined);
    // Leave out null (the option is not set), tuples (files cannot contain them), and lists (Salt's
    // list of nodegroups consists of maps).
    const expected = type.filter((one) => !['NoneType', 'list', 'tuple'].includes(one));
    t.deepEqual(taken, expected, name);
  }
});

test("Salt's own defaults cause no advice", (t) => {
  for (const [name, { default: salt }] of salts) {
    const value = usual.get(name);
    if (value === undefined || value === anyValue) continue;
    t.deepEqual(value, salt, name);
  }
});

test('no option is in two groups of advice', (t) => {
  const groups = [...notServed, ...notYet, ...notNeeded];
  const names = groups.flatMap(({ options }) => Object.keys(options));
  t.deepEqual(names, [...new Set(names)]);
  for (const name of unservedNames()) t.false(served.has(name), name);
});

test('advice names a remedy, in one line that follows the name', (t) => {
  for (const name of unservedNames()) {
    const { message = '' } = findUnserved(name) ?? {};
    t.regex(
      message,
      /^(is not supported( yet)?|has no effect|is an option of minions)[:;] [^\n]+[^.]$/,
    );
  }
});
