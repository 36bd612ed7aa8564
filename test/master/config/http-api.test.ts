/** `rest_cherrypy:`, `saltbridge: api:`, and what SaltGUI reads of a configuration. */
import test from 'ava';
import { loadMasterConfig } from '../../../master/config/load.ts';
import { ConfigError } from '../../../master/config/option-kinds.ts';
import { saltValues } from '../../../master/config/salt-values.ts';
import { resolveMasterConfig } from '../../../master/index.ts';
import { saltApiOptions } from '../../../salt-api/index.ts';
import { configDirectory } from './files.ts';

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
    runnerTimeout: 7,
    maxEventSize: 1_048_576,
  });
});

test('our section takes the place of it', async (t) => {
  const section = 'port: 1, disable_ssl: true, session_idle: 5';
  const master = `rest_cherrypy: {port: 2, disable_ssl: true}\nsaltbridge: {api: {${section}}}\n`;
  const { config } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(saltApiOptions(config), {
    port: 1,
    disableSsl: true,
    eauths: [],
    sessionIdle: 5,
    runnerTimeout: 300,
    maxEventSize: 1_048_576,
  });
});

test("who may come to it is read with Salt's names", async (t) => {
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

test('nothing is served without a port', (t) => {
  t.is(saltApiOptions(resolveMasterConfig()), undefined);
  t.is(saltApiOptions(resolveMasterConfig({ restCherrypy: {} })), undefined);
});

test('what would listen without TLS, or promises what does not hold, is refused', async (t) => {
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

test('what SaltGUI reads is handed on, and no passphrase is', async (t) => {
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
