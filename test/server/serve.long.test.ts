/** The function `serve`. With it, a program runs the same services as `saltbridge master`. */

import { mkdirSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import test from 'ava';
import { ConfigError, loadSaltConfig } from '#config';
import { createMaster, joinMaster, serve } from '#server';
import { MasterWithServices } from '#server/master-with-services.ts';
import { type ClusterMaster, ClusterMasters } from '../helpers/cluster-masters.ts';
import { within } from '../helpers/deadline.ts';
import { type ApiAnswer, type ApiRequest, json, send } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

test('one call serves minions, the bridge and the HTTP API', async (t) => {
  const server = await serve({
    rootDir: temporaryDirectory(t),
    interface: '127.0.0.1',
    publishPort: 0,
    requestPort: 0,
    api: { host: '127.0.0.1', port: 0, disableSsl: true },
  });
  t.teardown(() => server.close());
  const { requestPort } = await server.master.status();
  t.true(requestPort > 0);
  t.deepEqual(server.bridge.commands.list(), []);
  const { address = '', port = 0 } = server.httpAddress ?? {};
  const document = await fetch(`http://${address}:${port}/openapi.json`);
  const { paths }: { paths: object } = JSON.parse(await document.text());
  t.true('/bridge/v1/commands' in paths);
  await server.close();
  await t.throwsAsync(fetch(`http://${address}:${port}/openapi.json`));
});

test('a server without a port for the HTTP API has none, and says that no machine could claim', async (t) => {
  const server = await serve({
    rootDir: temporaryDirectory(t),
    interface: '127.0.0.1',
    publishPort: 0,
    requestPort: 0,
    bridge: { enroll: {} },
  });
  t.teardown(() => server.close());
  t.is(server.httpAddress, undefined);
  const request = { id: 'web1', project: 'shop', format: 'none' } as const;
  const error = await t.throwsAsync(server.bridge.enroll.create(request), {
    code: 'ERR_ENROLL_OFF',
  });
  t.regex(error.message, /no HTTP API/);
});

test('createMaster and joinMaster refuse to run a site or a centre', async (t) => {
  for (const [key, section] of [
    ['saltbridge:site', { site: { name: 'north', centre: 'https://127.0.0.1:9' } }],
    ['saltbridge:sites', { sites: {} }],
  ] as const) {
    const directory = temporaryDirectory(t);
    const settings = JSON.stringify({ root_dir: directory, saltbridge: section });
    writeFileSync(path.join(directory, 'master'), settings);
    const config = await loadSaltConfig(directory);
    for (const make of [createMaster, joinMaster]) {
      const error = t.throws(() => make({ config }), { instanceOf: ConfigError });
      t.is(error.code, 'ERR_OPTION_CONFLICT', error.message);
      t.is(error.key, key);
    }
  }
});

test('a server of a configuration directory reads it again by itself', async (t) => {
  const directory = temporaryDirectory(t);
  const write = (timeout: number): void =>
    writeFileSync(
      path.join(directory, 'master'),
      JSON.stringify({
        root_dir: directory,
        interface: '127.0.0.1',
        publish_port: 0,
        ret_port: 0,
        timeout,
      }),
    );
  write(7);
  const server = await serve(await loadSaltConfig(directory));
  t.teardown(() => server.close());
  t.is(server.master.config.timeout, 7);
  write(8);
  const { applied } = await server.reload();
  t.deepEqual(applied, ['timeout']);
  t.is(server.master.config.timeout, 8);
});

test('a directory of several masters is refused, with the directory of one', async (t) => {
  const directory = temporaryDirectory(t);
  for (const [name, port] of [
    ['red', 4705],
    ['blue', 4805],
  ] as const) {
    const own = path.join(directory, name);
    mkdirSync(own);
    const options = { root_dir: own, publish_port: port, ret_port: port + 1 };
    writeFileSync(
      path.join(own, 'master'),
      JSON.stringify({ ...options, file_roots: { base: [] } }),
    );
  }
  writeFileSync(
    path.join(directory, 'master'),
    JSON.stringify({ saltbridge: { tenants: { red: 'red', blue: 'blue' } } }),
  );
  const loaded = await loadSaltConfig(directory);
  t.deepEqual(
    loaded.tenants?.map(({ name }) => name),
    ['red', 'blue'],
  );
  const error = await t.throwsAsync(serve(loaded), { code: 'ERR_OPTION_CONFLICT' });
  t.true(error.message.includes(path.join(directory, 'red')), error.message);
});

// Members of a cluster.

const password = 'of-the-test';
const credentials = { username: 'ann', password, eauth: 'sharedsecret' };

test('a session of one member holds at the other, with its end, and when the first is gone', async (t) => {
  let passed = 0;
  const servers: MasterWithServices[] = [];
  const masters = new ClusterMasters(
    temporaryDirectory(t),
    {
      keysize: 2048,
      externalAuth: { sharedsecret: { ann: ['.*', '@runner', '@wheel', '@jobs'] } },
      eauth: { sharedsecret: password },
      api: { host: '127.0.0.1', port: 0, disableSsl: true, sessionIdleSeconds: 1000 },
    },
    (options) => {
      const server = new MasterWithServices({ ...options, now: () => Date.now() + passed });
      servers.push(server);
      t.teardown(() => server.close());
      return server.master;
    },
  );
  const a: ClusterMaster = await masters.first('a');
  await masters.join('b', a);
  const ask = (at: 0 | 1, request: ApiRequest): Promise<ApiAnswer> => {
    const { port = 0 }: Partial<AddressInfo> = servers[at]?.httpAddress ?? {};
    return within('an answer', send(port, request));
  };
  const login = (at: 0 | 1): Promise<ApiAnswer> =>
    ask(at, { method: 'POST', path: '/login', headers: json(), body: credentials });
  const sessionAt = async (at: 0 | 1): Promise<string> =>
    String((await login(at)).headers['x-auth-token']);
  const statusOf = async (at: 0 | 1, session: string): Promise<number> =>
    (await ask(at, { path: '/stats', headers: json(session) })).status;

  const first = await sessionAt(0);
  const cookie = { cookie: `session_id=${first}`, accept: 'text/html' };
  t.is(await statusOf(1, first), 200);
  const page = await ask(1, { path: '/status', headers: cookie });
  t.regex(page.text, /Log out/);
  await ask(1, { method: 'POST', path: '/logout', headers: json(first), body: {} });
  t.is(await statusOf(0, first), 401);
  t.is(await statusOf(1, first), 401);

  // The form sends the log-in of the status page.
  const form = new URLSearchParams(credentials).toString();
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const entered = await ask(1, { method: 'POST', path: '/status/login', headers, body: form });
  const [, second = ''] =
    /^session_id=([0-9a-f]{64});/.exec(`${entered.headers['set-cookie']}`) ?? [];
  t.is(await statusOf(0, second), 200);
  await a.master.logins.revoke({ user: 'ann' });
  t.is(await statusOf(0, second), 401);
  t.is(await statusOf(1, second), 401);

  const third = await sessionAt(0);
  passed += 600_000;
  t.is(await statusOf(0, third), 200);
  // The message comes after that one in the log.
  const fourth = await sessionAt(0);
  passed += 600_000;
  t.is(await statusOf(1, third), 200);
  // A member that is being drained starts nothing, also through this interface.
  const { cluster } = a.master;
  await cluster.drain();
  const low = [{ client: 'runner', fun: 'jobs.list_jobs' }];
  const begin = { method: 'POST', path: '/', headers: json(fourth), body: low };
  t.like((await ask(0, begin)).json, { error: 'ERR_MASTER_DRAINING' });
  t.is((await ask(1, begin)).status, 200);
  t.is(await statusOf(0, fourth), 200);
  await servers[0]?.close();
  t.is(await statusOf(1, fourth), 200);
  const refusal = await login(1);
  t.is(refusal.status, 503);
  t.like(refusal.json, { error: 'ERR_CLUSTER_ALONE' });
  passed += 1_000_000;
  t.is(await statusOf(1, fourth), 401);
});
