/** The options `transport`, `transport_opts` and `ssl`. */
import test, { type ExecutionContext } from 'ava';
import { servedTransports } from '../../../master/config/transport-options.ts';
import {
  ConfigError,
  loadMasterConfig,
  type MasterConfig,
  type MasterOptions,
  resolveMasterConfig,
} from '../../../master/index.ts';
import { configDirectory } from './files.ts';

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

test('each of the three transports can be the one', async (t) => {
  t.deepEqual(ports(resolveMasterConfig()), [['zeromq', 4505, 4506]]);
  t.deepEqual(ports(await load(t, 'transport: tcp')), [['tcp', 4505, 4506]]);
  t.deepEqual(ports(await load(t, 'transport: ws')), [['ws', 4505, 4506]]);
});

test("the example of Salt's manual serves two, transport before the others", async (t) => {
  const config = await load(
    t,
    'transport_opts:\n  tcp:\n    publish_port: 4605\n    ret_port: 4606\n  zeromq: []\n',
  );
  t.deepEqual(ports(config), [
    ['zeromq', 4505, 4506],
    ['tcp', 4605, 4606],
  ]);
});

test('transport may have options of its own too, and a program names them as members', (t) => {
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
  t.regex(error?.message ?? '', /ret_port of zeromq and ret_port of tcp are the same/);
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

test("ssl takes Salt's names", async (t) => {
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
