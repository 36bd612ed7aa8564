/** What `saltbridge master` runs, in one call of a program. */

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { loadSaltConfig } from '../../master/index.ts';
import { serve } from '../../server/index.ts';
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
