import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { ExtPillarEntry } from '#config';
import {
  ConfigError,
  loadMasterConfig,
  loadTenants,
  type MasterConfig,
  type MasterOptions,
  reaction,
  resolveMasterConfig,
  saltValues,
  servedTransports,
  valuesForMinions,
} from '#config';
import { extPillarAdvice } from '#config/ext-pillar-advice.ts';
import { parseConfigFile } from '#config/read-files.ts';
import { saltApiOptions } from '#salt-api';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { configDirectory } from './files.ts';

const sample = `
file_roots:
  base:
    - /srv/salt
    - /srv/formulas/*
  3006: /srv/one
  empty:
file_ignore_glob: '*.swp'
file_ignore_regex: ['/\\.git($|/)']
file_buffer_size: 262144
state_aggregate: [pkg]
env_order: [base, 3006]
jinja_env:
  trim_blocks: True
  nested: {list: [1, two, null, {deep: [yes]}]}
saltbridge:
  limits:
    file_bytes_per_second: 1000000
`;

test("the options of the file server are accepted in Salt's form", async (t) => {
  const { config, warnings } = await loadMasterConfig(configDirectory(t, { master: sample }));
  t.deepEqual(warnings, []);
  t.deepEqual(config.fileRoots, {
    base: ['/srv/salt', '/srv/formulas/*'],
    3006: ['/srv/one'],
    empty: [],
  });
  t.deepEqual(config.fileIgnoreGlob, ['*.swp']);
  t.deepEqual(config.fileIgnoreRegex, ['/\\.git($|/)']);
  t.is(config.fileBufferSize, 262_144);
  t.deepEqual(config.stateAggregate, ['pkg']);
  t.deepEqual(config.envOrder, ['base', '3006']);
  t.deepEqual(config.jinjaEnv, {
    trim_blocks: true,
    nested: { list: [1, 'two', null, { deep: [true] }] },
  });
  t.is(config.limits.fileBytesPerSecond, 1_000_000);
});

test('a value that another option disables causes a warning', async (t) => {
  const warningsOf = async (master: string): Promise<readonly string[]> => {
    const { warnings } = await loadMasterConfig(configDirectory(t, { master }));
    return warnings.map(({ kind, line }) => `${kind} ${line}`);
  };
  t.deepEqual(await warningsOf('file_recv: true\nfile_recv_max_size: 65\n'), ['bounded 2']);
  t.deepEqual(await warningsOf('file_recv: true\n'), ['bounded 1'], "Salt's default is 100");
  t.deepEqual(await warningsOf('file_recv: true\nfile_recv_max_size: 64\n'), []);
  t.deepEqual(await warningsOf('file_recv_max_size: 200\n'), []);
  const more = 'saltbridge: {limits: {pushed_bytes: 104857600}}\n';
  t.deepEqual(await warningsOf(`file_recv: true\n${more}`), []);
  const rule = 'subject: {minion: web*}, action: file-send, resource: {path: logs/*}';
  const acl = `saltbridge: {acl: {rules: {logs: {${rule}}}}}\n`;
  t.deepEqual(await warningsOf(acl), ['bounded 0']);
  // A job cache that is turned off also causes a warning in a cluster.
  const cluster = 'saltbridge: {cluster: {name: c, nats: [nats://127.0.0.1:1]}}\n';
  t.deepEqual(await warningsOf(`job_cache: false\n${cluster}`), ['bounded 1']);
  t.deepEqual(await warningsOf(`job_cache: true\n${cluster}`), []);
  t.deepEqual(await warningsOf('job_cache: false\n'), []);
});

test("without options, files come from Salt's default directory", (t) => {
  t.deepEqual(resolveMasterConfig().fileRoots, { base: ['/srv/salt', '/srv/spm/salt'] });
});

for (const [what, options] of Object.entries({
  'a relative root': { fileRoots: { base: ['srv'] } },
  'roots that are no map': { fileRoots: JSON.parse('["/srv/salt"]') },
  'a root that is a map': { fileRoots: JSON.parse('{"base": [{"a": 1}]}') },
  'an expression that cannot be read': { fileIgnoreRegex: ['('] },
  'an unknown way of merging': { topFileMergingStrategy: JSON.parse('"smart"') },
})) {
  test(`${what} is refused`, (t) => {
    t.throws(() => resolveMasterConfig(options), {
      instanceOf: ConfigError,
      code: 'ERR_OPTION_TYPE',
    });
  });
}

// Tests of `rest_cherrypy:` and `saltbridge: api:`, and of the options that SaltGUI reads.

test("Salt's section is the API's, with Salt's names", async (t) => {
  const master = `
netapi_enable_clients: [local, runner]
rest_timeout: 7
rest_cherrypy:
  port: 8000
  host: 127.0.0.1
  ssl_crt: /etc/api.crt
  ssl_key: /etc/api.key
  static: /srv/saltgui/static
  static_path: files/
  debug: true
  thread_pool: 50
  cors_origin: https://ui.example
`;
  const { config, warnings } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(warnings, []);
  t.deepEqual(saltApiOptions(config), {
    port: 8000,
    host: '127.0.0.1',
    tls: { certificate: '/etc/api.crt', key: '/etc/api.key' },
    static: '/srv/saltgui/static',
    staticPath: '/files',
    corsOrigin: ['https://ui.example'],
    eauths: [],
    clients: ['local', 'runner'],
    runnerTimeoutSeconds: 7,
    maxEventSize: 1_048_576,
  });
});

test("our section takes precedence over Salt's", async (t) => {
  const section = 'port: 1, disable_ssl: true, session_idle: 5';
  const master = `rest_cherrypy: {port: 2, disable_ssl: true}\nsaltbridge: {api: {${section}}}\n`;
  const { config } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(saltApiOptions(config), {
    port: 1,
    disableSsl: true,
    eauths: [],
    sessionIdleSeconds: 5,
    runnerTimeoutSeconds: 300,
    maxEventSize: 1_048_576,
  });
});

test('access lists of the HTTP API are read by the option names of Salt', async (t) => {
  const master = `
rest_cherrypy:
  port: 8000
  disable_ssl: true
  hosts: Salt.Example
  authorized_ips: [10.0.0.1, 'fd00::/8']
  api_acl: {users: {fred: [10.0.0.1, 10.1.0.0/16], '*': ['*']}}
`;
  const { config } = await loadMasterConfig(configDirectory(t, { master }));
  t.like(saltApiOptions(config), {
    hosts: ['salt.example'],
    authorizedIps: ['10.0.0.1', 'fd00::/8'],
  });
  t.deepEqual(Object.entries(config.restCherrypy?.apiAcl?.users ?? {}), [
    ['fred', ['10.0.0.1', '10.1.0.0/16']],
    ['*', ['*']],
  ]);
});

test('the API is off without a port', (t) => {
  t.is(saltApiOptions(resolveMasterConfig()), undefined);
  t.is(saltApiOptions(resolveMasterConfig({ restCherrypy: {} })), undefined);
});

test('an API without TLS, or with invalid access lists, is refused', async (t) => {
  for (const section of [
    'port: 8000',
    'port: 8000, ssl_crt: /etc/api.crt',
    'port: 8000, disable_ssl: true, authorized_ips: [10.0.0.1/40]',
    'port: 8000, disable_ssl: true, authorized_ips: [10.0.0.1/]',
    'port: 8000, disable_ssl: true, authorized_ips: []',
    'port: 8000, disable_ssl: true, authorized_ips: [proxy.example]',
    'port: 8000, disable_ssl: true, api_acl: {users: {}}',
    'port: 8000, disable_ssl: true, api_acl: {users: {fred: [home]}}',
    'port: 8000, disable_ssl: true, api_acl: {groups: {ops: [10.0.0.1]}}',
    'port: 8000, disable_ssl: true, hosts: ["salt.example:8000"]',
    'port: 99999, disable_ssl: true',
    'port: 8000, disable_ssl: true, webhook_url: /../x',
  ]) {
    const directory = configDirectory(t, { master: `rest_cherrypy: {${section}}\n` });
    await t.throwsAsync(loadMasterConfig(directory), {
      instanceOf: ConfigError,
      code: 'ERR_OPTION_TYPE',
    });
  }
});

test('options for SaltGUI are passed on, except for passphrases', async (t) => {
  const master = `
saltgui_templates: {t1: {description: d, target: '*', command: test.ping}}
state_verbose: false
key_pass: planted
signing_key_pass: planted
`;
  const { config } = await loadMasterConfig(configDirectory(t, { master }));
  const values = saltValues(config);
  t.like(values, {
    saltgui_templates: { t1: { description: 'd', target: '*', command: 'test.ping' } },
    state_verbose: false,
    syndic_master: 'masterofmasters',
    nodegroups: {},
  });
  t.regex(String(values.id), /_master$/);
  t.false(JSON.stringify(values).includes('planted'));
});

// Tests of the options `transport`, `transport_opts` and `ssl`.

async function load(t: ExecutionContext, master: string): Promise<MasterConfig> {
  const { config, warnings } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(warnings, []);
  return config;
}

function ports(config: MasterConfig): unknown {
  return servedTransports(config).map(({ name, publishPort, retPort }) => [
    name,
    publishPort,
    retPort,
  ]);
}

test('each of the three transports can be the only one', async (t) => {
  t.deepEqual(ports(resolveMasterConfig()), [['zeromq', 4505, 4506]]);
  t.deepEqual(ports(await load(t, 'transport: tcp')), [['tcp', 4505, 4506]]);
  t.deepEqual(ports(await load(t, 'transport: ws')), [['ws', 4505, 4506]]);
});

test("the example in Salt's manual serves two transports, with the value of transport first", async (t) => {
  const config = await load(
    t,
    'transport_opts:\n  tcp:\n    publish_port: 4605\n    ret_port: 4606\n  zeromq: []\n',
  );
  t.deepEqual(ports(config), [
    ['zeromq', 4505, 4506],
    ['tcp', 4605, 4606],
  ]);
});

test('transport may contain options, which a program sets as members', (t) => {
  const config = resolveMasterConfig({
    transport: 'tcp',
    pubHwm: 7,
    transportOpts: { tcp: { publishPort: 1, interface: '10.0.0.1', ssl: { certfile: '/c' } } },
  });
  const [tcp] = servedTransports(config);
  t.like(tcp, { publishPort: 1, retPort: 4506, interface: '10.0.0.1', pubHwm: 7 });
  t.deepEqual(tcp?.ssl, { certfile: '/c' });
});

test('two listeners on the same port of an address are refused', async (t) => {
  const same = configDirectory(t, { master: 'transport_opts: {tcp: {publish_port: 4605}}' });
  const error = await t.throwsAsync(loadMasterConfig(same), {
    instanceOf: ConfigError,
    code: 'ERR_OPTION_CONFLICT',
  });
  t.regex(error?.message ?? '', /ret_port of zeromq and ret_port of tcp use the same port/);
  t.notThrows(() =>
    resolveMasterConfig({
      interface: '10.0.0.1',
      transportOpts: { tcp: { interface: '10.0.0.2' } },
    }),
  );
  t.notThrows(() => resolveMasterConfig({ publishPort: 0, retPort: 0, transportOpts: { ws: {} } }));
});

for (const wrong of [
  'transport: udp',
  'transport_opts: [tcp]',
  'transport_opts: {udp: {}}',
  'transport_opts: {tcp: 5}',
  'transport_opts: {tcp: [1]}',
  'transport_opts: {tcp: {publish_port: many}}',
  'transport_opts: {tcp: {publishPort: 5}}',
  'transport_opts: {tcp: {worker_threads: 5}}',
  'ssl: true',
  'ssl: {}',
  'ssl: {keyfile: /k}',
  'ssl: {certfile: /c, cert_reqs: 2}',
  'ssl: {certfile: /c, cert_reqs: CERT_REQUIRED}',
  'ssl: {certfile: /c, cert_reqs: CERT_OPTIONAL}',
  'ssl: {certfile: /c, ssl_version: PROTOCOL_SSLv3}',
  'ssl: {certfile: /c, verify_flags: [VERIFY_CRL_CHECK_LEAF]}',
]) {
  test(`${wrong} is refused`, async (t) => {
    const directory = configDirectory(t, { master: wrong });
    await t.throwsAsync(loadMasterConfig(directory), { code: 'ERR_OPTION_TYPE' });
  });
}

test("ssl accepts Salt's names", async (t) => {
  const file =
    'ssl: {certfile: /c, keyfile: /k, ca_certs: /a, cert_reqs: CERT_REQUIRED, ' +
    'ssl_version: PROTOCOL_TLSv1_2, ciphers: HIGH}';
  const expected: MasterOptions['ssl'] = {
    certfile: '/c',
    keyfile: '/k',
    caCerts: '/a',
    certReqs: 'CERT_REQUIRED',
    sslVersion: 'PROTOCOL_TLSv1_2',
    ciphers: 'HIGH',
  };
  t.deepEqual((await load(t, file)).ssl, expected);
  t.deepEqual(resolveMasterConfig({ ssl: expected }).ssl, expected);
  t.deepEqual((await load(t, 'ssl: {certfile: /c, ca_certs:}')).ssl, { certfile: '/c' });
  for (const none of ['ssl: false', 'ssl:', '']) {
    t.false((await load(t, `presence_events: true\n${none}`)).ssl);
  }
});

test("options of log-ins are read under Salt's names", async (t) => {
  const master = [
    'token_expire: 600',
    'token_expire_user_override: {pam: [fred]}',
    'sharedsecret: 12345',
    'auth.pam.service: other',
    'auth.ldap.server: ldap.example.org',
    "auth.ldap.port: '636'",
    'auth.ldap.tls: True',
    'auth.ldap.binddn: cn=salt,dc=example,dc=org',
    'auth.ldap.bindpw: secret',
    "auth.ldap.filter: '(uid={{ username }})'",
    "auth.ldap.groupou: ''",
    'external_auth:',
    '  ldap: {fred: [test.ping]}',
    '  pam: {fred: [test.ping]}',
    '',
  ].join('\n');
  const { config, warnings } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(warnings, []);
  t.like(config.eauth, {
    tokenExpire: 600,
    tokenExpireUserOverride: { pam: ['fred'] },
    sharedsecret: '12345',
    pamService: 'other',
    ldapServer: 'ldap.example.org',
    ldapPort: 636,
    ldapTls: true,
    ldapGroupou: '',
  });
});

test('login methods without effect are reported with their line, and the master starts', async (t) => {
  const master = 'external_auth:\n  django: {}\n  auto: {fred: [.*]}\n  file: {fred: [.*]}\n';
  const { warnings } = await loadMasterConfig(configDirectory(t, { master }));
  const reported = warnings.filter(({ message }) => message.includes('no user can log in with it'));
  t.deepEqual(
    reported.map(({ line, key }) => [line, key]),
    [
      [2, 'external_auth:django'],
      [3, 'external_auth:auto'],
      [4, 'external_auth:file'],
    ],
  );
});

test('an invalid service, lifetime or list of users is refused', (t) => {
  const wrong = [
    { pamService: '../other' },
    { tokenExpire: 0 },
    { tokenExpireUserOverride: { pam: [{}] } as never },
    { ldapScope: 3 },
  ];
  for (const eauth of wrong) {
    t.throws(() => resolveMasterConfig({ eauth }), { code: 'ERR_OPTION_TYPE' });
  }
});

// Tests of `ext_pillar` from files and programs: permitted requests, and errors.

const written = `ext_pillar:
  - minion_files: /srv/a
  - minion_files: {directory: /srv/b, max_bytes: 100}
    minion_http:
      url: https://cmdb.test:8443/pillar/{id}
      hosts: ["cmdb.test:8443"]
      headers: {authorization: Bearer planted}
      timeout: 2.5
      format: yaml
  - minion_http: {url: "http://127.0.0.1/{id}", hosts: 127.0.0.1, allow_plain_http: yes}
`;

const read: readonly ExtPillarEntry[] = [
  { module: 'minion_files', directory: '/srv/a' },
  { module: 'minion_files', directory: '/srv/b', maxBytes: 100 },
  {
    module: 'minion_http',
    url: 'https://cmdb.test:8443/pillar/{id}',
    hosts: ['cmdb.test:8443'],
    headers: { authorization: 'Bearer planted' },
    timeout: 2.5,
    format: 'yaml',
  },
  {
    module: 'minion_http',
    url: 'http://127.0.0.1/{id}',
    hosts: ['127.0.0.1'],
    allowPlainHttp: true,
  },
];

async function loadConfig(t: ExecutionContext, master: string) {
  return loadMasterConfig(configDirectory(t, { master }));
}

test('sources are read in their order, and a program passes them in the form of files', async (t) => {
  const { config, warnings } = await loadConfig(t, written);
  t.deepEqual(config.extPillar, read);
  t.deepEqual(warnings, []);
  t.deepEqual(resolveMasterConfig({ extPillar: read }).extPillar, read);
});

test('headers are not shown in the options', async (t) => {
  const { config } = await loadConfig(t, written);
  t.false(JSON.stringify(saltValues(config)).includes('planted'));
});

test('options of extensions that are left out are not shown', (t) => {
  const config = resolveMasterConfig({ pillarOpts: true });
  t.like(valuesForMinions(config), { pillar_opts: true, file_recv: false, state_top: 'top.sls' });
  const left = valuesForMinions(config, ['files']);
  t.like(left, { pillar_opts: true, state_top: 'top.sls' });
  t.false('file_recv' in left);
  t.false('file_roots' in saltValues(config, ['files']));
});

/** Names of the modules of `ext_pillar` in Salt [salt/pillar/ of 3007]. */
const saltsOwn =
  'cmd_json cmd_yaml cmd_yamlex cobbler confidant consul csv digicert django_orm ec2_pillar etcd ' +
  'extra_minion_data_in_pillar file_tree foreman gpg hg hiera http_json http_yaml libvirt ' +
  'makostack mongo mysql nacl neutron netbox nodegroups pepa pillar_ldap postgres puppet reclass ' +
  'redis rethinkdb s3 saltclass sql_base sqlcipher sqlite3 stack svn varstack vault venafi ' +
  'virtkey vmware';

test("each of Salt's own modules is refused by name, with an alternative", async (t) => {
  for (const name of saltsOwn.split(' ')) {
    const { config, warnings } = await loadConfig(t, `ext_pillar:\n  - ${name}: [secret]\n`);
    t.deepEqual(config.extPillar, [{ module: 'unserved', name }], name);
    const [{ kind, line, message } = { kind: '', line: 0, message: '' }, ...others] = warnings;
    t.deepEqual([kind, line, others], ['not-served', 1, []], name);
    t.true(
      message.endsWith(`: ext_pillar: ${name} is not supported: ${extPillarAdvice.get(name)}`),
      name,
    );
    t.regex(String(extPillarAdvice.get(name)), / /);
  }
});

test('an unknown module is named too, and the others are queried', async (t) => {
  const { config, warnings } = await loadConfig(
    t,
    'ext_pillar: [{minion_fils: /x}, {hg: [a], minion_files: /srv/a}]\n',
  );
  const unserved = (name: string): ExtPillarEntry => ({ module: 'unserved', name });
  const entries = [unserved('minion_fils'), unserved('hg'), ...read.slice(0, 1)];
  t.deepEqual(config.extPillar, entries);
  t.deepEqual(resolveMasterConfig({ extPillar: entries }).extPillar, entries);
  const [first, second] = warnings.map(({ message }) => message);
  t.regex(String(first), /minion_fils is unknown: the supported modules are git/);
  t.regex(String(second), /hg is not supported/);
});

for (const [what, value] of Object.entries({
  'no list': '{minion_files: /srv/a}',
  'a list of names': '[minion_files]',
  'a map of nothing': '[{}]',
  'a relative directory': '[{minion_files: srv}]',
  'a directory of which nothing is said': '[{minion_files: {max_bytes: 1}}]',
  'an option that it does not have': '[{minion_files: {directory: /srv/a, recurse: true}}]',
  'an address without hosts': '[{minion_http: {url: "https://a.test/{id}"}}]',
  'a host that is not listed': '[{minion_http: {url: "https://a.test/{id}", hosts: [b.test]}}]',
  'no encryption': '[{minion_http: {url: "http://a.test/{id}", hosts: [a.test]}}]',
  'a password in the address': '[{minion_http: {url: "https://u:p@a.test/{id}", hosts: [a.test]}}]',
  'a host of the id': '[{minion_http: {url: "https://{id}/", hosts: [id]}}]',
  'a header over two lines':
    '[{minion_http: {url: "https://a.test/{id}", hosts: [a.test], headers: {a: "b\\nc"}}}]',
})) {
  test(`${what} prevents the start, and the error names the line`, async (t) => {
    const error = await t.throwsAsync(loadConfig(t, `timeout: 5\next_pillar: ${value}\n`), {
      instanceOf: ConfigError,
      code: 'ERR_OPTION_TYPE',
    });
    t.like(error, { line: 2, key: 'ext_pillar' });
  });
}

test('a module that is not served is refused for a program', (t) => {
  const extPillar: unknown = [{ module: 'git', directory: '/srv/a' }];
  const options = { extPillar } as { extPillar: readonly ExtPillarEntry[] };
  t.throws(() => resolveMasterConfig(options), { code: 'ERR_OPTION_TYPE' });
});

// Tests of tenants in the configuration, and of resources that two tenants must not share.

/**
 * Writes a main file that lists the tenants `red` and `blue`, and the files of both. `%` in them is
 * replaced with the directory.
 */
function layOut(t: ExecutionContext, red: string, blue: string, main = ''): string {
  const directory = temporaryDirectory(t);
  const write = (name: string, text: string): void => {
    mkdirSync(path.join(directory, path.dirname(name)), { recursive: true });
    writeFileSync(path.join(directory, name), text.replaceAll('%', directory));
  };
  write('master', `${main}saltbridge:\n  tenants:\n    red: red\n    blue: '%/blue'\n`);
  write('red/master', replacing('root_dir: %/r\npublish_port: 4505\nret_port: 4506\n', red));
  write('blue/master', replacing('root_dir: %/b\npublish_port: 5505\nret_port: 5506\n', blue));
  return directory;
}

/** Returns lines of options. Options in `given` replace those in `usual`. */
function replacing(usual: string, given: string): string {
  const lines = `${usual}${given}`.split('\n').filter((line) => line !== '');
  const options = new Map(lines.map((line) => [line.split(':')[0], line]));
  return `${[...options.values()].join('\n')}\n`;
}

test('each tenant has its own configuration, from the main file or a file elsewhere', async (t) => {
  const directory = layOut(t, '', 'no_such_option: 1\n');
  const { tenants, warnings } = await loadTenants(directory);
  t.deepEqual(
    tenants.map(({ name, directory: own, config }) => [name, own, config.pkiDir]),
    ['red', 'blue'].map((name) => [
      name,
      path.join(directory, name),
      path.join(directory, name.slice(0, 1), 'etc/salt/pki/master'),
    ]),
  );
  t.deepEqual(
    tenants.map((it) => it.warnings.map(({ key }) => key)),
    [[], ['no_such_option']],
  );
  t.deepEqual(warnings, []);
});

test('a directory without tenants is one master', async (t) => {
  const directory = temporaryDirectory(t);
  writeFileSync(path.join(directory, 'master'), `root_dir: ${directory}\n`);
  t.deepEqual((await loadTenants(directory)).tenants, []);
});

const shared: readonly (readonly [what: string, red: string, blue: string, RegExp])[] = [
  ['pki_dir', 'pki_dir: %/r/same\n', 'root_dir: %/r\npki_dir: same\n', /pki_dir .* and pki_dir/],
  [
    'a state_dir within the other one',
    'saltbridge: {state_dir: %/r/state}\n',
    'root_dir: %\nsaltbridge: {state_dir: r/state/blue}\n',
    /state_dir .* and saltbridge: state_dir/,
  ],
  [
    'the socket',
    'saltbridge: {socket: %/r/s}\n',
    'root_dir: %\nsaltbridge: {socket: r/s}\n',
    /socket .* and saltbridge: socket/,
  ],
  ['a port', '', 'ret_port: 4505\n', /publish_port .* and ret_port/],
  [
    'a port of another transport on an address of its own',
    '',
    'interface: 127.0.0.1\ntransport_opts: {tcp: {publish_port: 7001, ret_port: 4506}}\n',
    /ret_port .* and ret_port/,
  ],
  [
    'files that the one serves and the other keeps',
    'file_roots: {base: [%/b]}\n',
    '',
    /file_roots .* and pki_dir/,
  ],
  [
    'files that the other serves',
    '',
    'file_roots: {base: [%/r/var/cache]}\n',
    /cachedir .* and file_roots/,
  ],
];

for (const [what, red, blue, message] of shared) {
  test(`two tenants with the same ${what} are refused with both names and files`, async (t) => {
    const directory = layOut(t, red, blue);
    const error = await t.throwsAsync(loadTenants(directory), {
      instanceOf: ConfigError,
      code: 'ERR_OPTION_CONFLICT',
      message,
    });
    t.true(error?.message.includes(`red (${directory}/red/master)`));
    t.true(error?.message.includes(`blue (${directory}/blue/master)`));
  });
}

test('a folder shared through a link is found', async (t) => {
  const directory = layOut(t, '', '');
  mkdirSync(path.join(directory, 'r/etc/salt/pki/master'), { recursive: true });
  mkdirSync(path.join(directory, 'b/etc/salt/pki'), { recursive: true });
  symlinkSync(
    path.join(directory, 'r/etc/salt/pki/master'),
    path.join(directory, 'b/etc/salt/pki/master'),
  );
  await t.throwsAsync(loadTenants(directory), { message: /pki_dir .* and pki_dir/ });
});

test('free ports, and the same port on two addresses, do not conflict', async (t) => {
  const directory = layOut(
    t,
    'interface: 127.0.0.1\npublish_port: 0\nret_port: 4506\n',
    'interface: 127.0.0.2\npublish_port: 0\nret_port: 4506\n',
  );
  t.is((await loadTenants(directory)).tenants.length, 2);
});

test('a tenant has no tenants, and the same user as the process', async (t) => {
  const nested = layOut(t, 'saltbridge: {tenants: {green: /nowhere}}\n', '');
  await t.throwsAsync(loadTenants(nested), { message: /red .*must not define tenants itself/ });
  const other = layOut(t, 'user: salt\n', '', 'user: root\n');
  await t.throwsAsync(loadTenants(other), { code: 'ERR_OPTION_CONFLICT' });
  t.is((await loadTenants(layOut(t, 'user: salt\n', '', 'user: salt\n'))).tenants.length, 2);
});

test('a mistake in the file of one tenant is reported with its place', async (t) => {
  const directory = layOut(t, '', 'auto_accept: perhaps\n');
  await t.throwsAsync(loadTenants(directory), {
    code: 'ERR_OPTION_TYPE',
    message: new RegExp(`${directory}/blue/master:4: auto_accept`),
  });
});

test('names of tenants are words, and each tenant has its own directory', async (t) => {
  const directory = temporaryDirectory(t);
  for (const tenants of ["{'a b': x}", '{a: [x]}', '[a]', "{'../a': x}"]) {
    writeFileSync(path.join(directory, 'master'), `saltbridge: {tenants: ${tenants}}\n`);
    await t.throwsAsync(loadTenants(directory), { code: 'ERR_OPTION_TYPE' }, tenants);
  }
});

// Tests of `saltbridge: reactions:` from files and programs.

const signals = `
  acl:
    signals:
      - tag: infra/puppet/requested
        minions: "jenkins-*"
        schema:
          type: object
          required: [env, deep]
          properties:
            env: { enum: [test, live] }
            deep: { type: object, required: [count], properties: { count: { type: integer } } }
            loose: { type: string }
`;

const writtenReactions = `saltbridge:
  reactions:
    puppet:
      on: infra/puppet/requested
      from: "jenkins-*"
      do:
        run:
          fun: puppet.run
          target: "G@role:web"
          tgt_type: compound
          args: [agent, { from: data.deep.count }]
          kwargs: { environment: { from: data.env } }
      throttle: 5m
      throttle_key: data.env
      max_concurrent: 2
      rate: 10/hour
${signals}`;

test('reactions of several files are merged, each with its place', async (t) => {
  const other =
    'saltbridge:\n  reactions:\n    look:\n      "on": salt/minion/*/start\n      do: { runner: { fun: manage.present } }\n';
  const directory = configDirectory(t, { master: writtenReactions, 'master.d/a.conf': other });
  const { config } = await loadMasterConfig(directory);
  t.deepEqual(JSON.parse(JSON.stringify(config.reactions)), [
    {
      name: 'puppet',
      on: 'infra/puppet/requested',
      from: 'jenkins-*',
      do: {
        run: {
          fun: 'puppet.run',
          target: 'G@role:web',
          tgtType: 'compound',
          args: ['agent', { from: 'data.deep.count' }],
          kwargs: { environment: { from: 'data.env' } },
        },
      },
      throttleSeconds: 300,
      throttleKey: ['data.env'],
      maxConcurrent: 2,
      queue: 100,
      timeoutSeconds: 300,
      rate: '10/hour',
      origin: { file: `${directory}/master`, line: 3 },
    },
    {
      name: 'look',
      on: 'salt/minion/*/start',
      do: { runner: { fun: 'manage.present' } },
      throttleSeconds: 0,
      throttleKey: [],
      maxConcurrent: 1,
      queue: 100,
      timeoutSeconds: 300,
      rate: '60/minute',
      origin: { file: `${directory}/master.d/a.conf`, line: 3 },
    },
  ]);
});

async function refusal(t: ExecutionContext, from: string, to: string): Promise<ConfigError> {
  t.true(writtenReactions.includes(from), from);
  const written = writtenReactions.replace(from, to);
  const directory = configDirectory(t, { master: written });
  const error = await t.throwsAsync(loadMasterConfig(directory), { instanceOf: ConfigError });
  t.is(error?.code, 'ERR_OPTION_TYPE');
  // The line contains the field that the message names, or the nearest field above it.
  const [key = ''] = written.split('\n')[(error?.line ?? 0) - 1]?.trim().split(':') ?? [];
  const [field = ''] = error?.problem.split(':') ?? [];
  t.true(field.split('.').includes(key), error?.message);
  if (error === undefined) throw new Error('it was taken');
  return error;
}

for (const [what, from, to, field] of [
  ['a function from the event', 'fun: puppet.run', 'fun: { from: data.env }', 'do.run.fun'],
  ['what is no function', 'fun: puppet.run', 'fun: "puppet run"', 'do.run.fun'],
  ['an expression from the event', 'target: "G@role:web"', 'target: { from: data.env }', 'target'],
  ['a kind of target that nobody has', 'compound', 'telepathy', 'do.run.target'],
  ['a selector that cannot be read', '"jenkins-*"\n      do', '"E@("\n      do', 'from'],
  ['data that the schema does not require', 'data.env }', 'data.loose }', 'environment'],
  ['data that no schema knows', 'data.env }', 'data.other }', 'environment'],
  ['data that are no plain value', 'data.env }', 'data.deep }', 'environment'],
  ['text of the event by place', 'data.deep.count }', 'data.env }', 'args.1'],
  ['the sender by place', 'data.deep.count }', 'sender }', 'args.1'],
  [
    'a value of the event in a list',
    '{ from: data.env } }',
    '[{ from: data.env }] }',
    'environment',
  ],
  ['a path of another kind', 'data.env }', 'grains.env }', 'environment'],
  ['text by place that is a keyword', '[agent,', '["noop=false",', 'args.0'],
  ['a keyword of Salt itself', 'environment:', '__kwarg__:', 'kwargs'],
  ['another event, which no schema is for', 'on: infra/puppet/requested', 'on: a/b', 'args.1'],
  ['a field that nobody has', 'max_concurrent: 2', 'atonce: 2', 'atonce'],
  [
    'the name of a program',
    'max_concurrent: 2',
    'maxConcurrent: 2',
    'in files, the name of this field is max_concurrent',
  ],
  ['a rate that cannot be read', '10/hour', 'often', 'rate'],
  ['a time that cannot be read', '5m', 'soon', 'throttle: '],
  ['two things to do', 'run:', 'runner: { fun: manage.up }\n        run:', 'do'],
] as const) {
  test(`a reaction with ${what} is refused, with its line`, async (t) => {
    const { message } = await refusal(t, from, to);
    t.true(message.includes(field), message);
  });
}

test('a reaction may use a signal without a schema if it uses no value of it', async (t) => {
  const bare = 'saltbridge:\n  acl: { signals: [{ tag: a/b }] }\n  reactions:\n    one:\n';
  const does = '      on: a/b\n      do: { run: { fun: test.ping, target: "*" } }\n';
  const directory = configDirectory(t, { master: bare + does });
  t.is((await loadMasterConfig(directory)).config.reactions.length, 1);
});

test('an error in a reaction of a program names the reaction and the field', (t) => {
  const wrong = reaction('mine', { on: 'a/b', do: { run: { fun: 'ping', target: '*' } } });
  const error = t.throws(() => resolveMasterConfig({ reactions: [wrong] }), {
    instanceOf: ConfigError,
  });
  t.is(error?.key, 'saltbridge:reactions:mine');
  const twice = reaction('two', { on: 'a/b', do: { run: { fun: 'test.ping', target: '*' } } });
  t.throws(() => resolveMasterConfig({ reactions: [twice, twice] }), { instanceOf: ConfigError });
});

test('YAML 1.1 reads the key on as true, which is accepted as on', (t) => {
  t.deepEqual([...parseConfigFile('on: 1', 'f').keys()], ['true']);
});

async function unheard(t: ExecutionContext, more: string): Promise<readonly string[]> {
  const directory = configDirectory(t, {
    master: `reactor:\n  - infra/puppet/requested: [/srv/a.sls]\n  - deploy/*/done: [/srv/a.sls]\n  - salt/minion/*/start: [/srv/a.sls]\n${more}`,
  });
  const { warnings } = await loadMasterConfig(directory);
  return warnings.filter(({ kind }) => kind === 'unheard').map(({ message }) => message);
}

test('the start lists tags of the reactor that no minion may emit', async (t) => {
  const [both = '', ...none] = await unheard(t, '');
  t.deepEqual(none, []);
  t.regex(
    both,
    /master:1: .* 2 of the tags in this option \(infra\/puppet\/requested, deploy\/\*\/done\)/,
  );
  const permit = (tag: string): string => `saltbridge:\n  acl: { signals: [{ tag: "${tag}" }] }\n`;
  const [one = ''] = await unheard(t, permit('infra/*'));
  t.regex(one, /1 of the tags in this option \(deploy\/\*\/done\)/);
  const deploys = `saltbridge:\n  acl: { signals: [{ tag: infra/* }, { tag: "deploy/\${minion.id}/done" }] }\n`;
  t.deepEqual(await unheard(t, deploys), []);
});

test('a log format of Salt is named in a warning, unless it is the default', async (t) => {
  const master = "log_fmt_console: '%(message)s'\nlog_datefmt: '%H:%M:%S'\n";
  const { warnings } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(
    warnings.map(({ kind, key, line }) => [kind, key, line]),
    [['not-served', 'log_fmt_console', 1]],
  );
  t.regex(
    warnings[0]?.message ?? '',
    /log_fmt_console is not supported: log lines are JSON as pino writes it/,
  );
});
