/** Opening and closing: nothing remains open, and a failed start reports the reason. */

import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import test from 'ava';
import { resolveMasterConfig } from '#config';
import type { Master } from '#master';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import { createMaster } from '#server';
import { createMemoryStore, openEmbeddedStore, type Store } from '#store';
import { until, within } from '../helpers/deadline.ts';
import { layMasterKey } from '../helpers/rsa-keys.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories, startVectorMaster } from '../helpers/vector-master.ts';

function memoryMaster(directory: string, store: Store = createMemoryStore()): Master {
  const config = resolveMasterConfig(directories(directory));
  layMasterKey(config.pkiDir);
  return createMaster({
    config,
    store,
    transports: [createMemoryTransport().master],
  });
}

test('a master may be closed twice, before the start, and while it starts', async (t) => {
  const directory = temporaryDirectory(t);
  const never = memoryMaster(directory);
  await never.close();
  const master = memoryMaster(directory);
  const starting = master.start();
  await Promise.all([master.close(), master.close(), starting]);
  await t.throwsAsync(master.status(), { code: 'ERR_MASTER_STOPPED' });
  await t.throwsAsync(master.start(), { code: 'ERR_MASTER_STOPPED' });
  await memoryMaster(directory).close();
});

test('two masters cannot share a local socket, and the second releases what it opened', async (t) => {
  const directory = temporaryDirectory(t);
  const first = memoryMaster(directory);
  t.teardown(() => first.close());
  await first.start();
  const transport = createMemoryTransport();
  const second = createMaster({
    config: resolveMasterConfig(directories(directory)),
    store: createMemoryStore(),
    transports: [transport.master],
  });
  await t.throwsAsync(second.start(), { code: 'ERR_SOCKET', message: /another master/ });
  await t.throwsAsync(
    transport.master.listen(async (request) => request),
    { code: 'ERR_CLOSED' },
  );
  await second.close();
  t.is((await first.status()).keys.accepted, 0);
});

test('an occupied port is named, and all resources are released', async (t) => {
  const directory = temporaryDirectory(t);
  const taken = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => taken.once('listening', resolve));
  t.teardown(() => taken.close());
  const address = taken.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const options = { ...directories(directory), interface: '127.0.0.1', publishPort: 0 };
  layMasterKey(path.join(directory, 'pki'));
  const failing = createMaster({ config: resolveMasterConfig({ ...options, retPort: port }) });
  const error = await t.throwsAsync(failing.start(), { code: 'ERR_LISTEN' });
  t.regex(error?.message ?? '', new RegExp(String(port)));
  await failing.close();
  // Only one process can open the embedded store, so this fails if the first master still has it
  // open.
  const next = createMaster({ config: resolveMasterConfig({ ...options, retPort: 0 }) });
  await next.start();
  await next.close();
});

test('a store held by another process is named', async (t) => {
  const directory = temporaryDirectory(t);
  const config = resolveMasterConfig(directories(directory));
  mkdirSync(config.stateDir, { recursive: true });
  const held = await openEmbeddedStore({ directory: path.join(config.stateDir, 'store') });
  t.teardown(() => held.close());
  const master = createMaster({ config, transports: [createMemoryTransport().master] });
  await t.throwsAsync(master.start(), { code: 'ERR_STORE_LOCKED' });
});

test('an unreadable key is named, and is not replaced', async (t) => {
  const directory = temporaryDirectory(t);
  const { pkiDir = '' } = directories(directory);
  mkdirSync(pkiDir, { recursive: true });
  writeFileSync(path.join(pkiDir, 'master.pem'), 'no key');
  const error = await t.throwsAsync(memoryMaster(directory).start(), { code: 'ERR_OWN_KEY' });
  t.regex(error?.message ?? '', /master\.pem/);
  t.false(error?.message.includes('no key'));
});

test('a public key without its private half prevents the start', async (t) => {
  const directory = temporaryDirectory(t);
  const { pkiDir = '' } = directories(directory);
  mkdirSync(pkiDir, { recursive: true });
  writeFileSync(path.join(pkiDir, 'master.pub'), 'a key');
  await t.throwsAsync(memoryMaster(directory).start(), {
    code: 'ERR_OWN_KEY',
    message: /without/,
  });
  t.deepEqual(readdirSync(pkiDir), ['master.pub']);
});

test('folders that all users may write are refused', async (t) => {
  const directory = temporaryDirectory(t);
  const { stateDir = '' } = directories(directory);
  mkdirSync(stateDir, { recursive: true });
  chmodSync(stateDir, 0o777);
  await t.throwsAsync(memoryMaster(directory).start(), { message: /is writable for all users/ });
});

test('closing ends running jobs and subscriptions', async (t) => {
  const { master } = await startVectorMaster(t);
  const updates: string[] = [];
  const [follow, listen] = [
    master.jobs.run({ tgt: '*', fun: 'test.ping' }),
    await master.events.subscribe(),
  ];
  const followed = (async () => {
    for await (const { type } of follow) {
      updates.push(type);
      if (type === 'published') void master.close();
    }
    for await (const _event of listen);
  })();
  await within('the end of a job at closing', followed);
  t.deepEqual(updates, ['published', 'finished']);
});

// This test runs alone, because it counts open resources of the whole thread.
test.serial('a hundred masters leave no handles and files behind', async (t) => {
  const directory = temporaryDirectory(t);
  const store = createMemoryStore();
  await startAndClose(directory, createMemoryStore());
  await startAndClose(directory, store);
  const before = process.getActiveResourcesInfo().length;
  for (let count = 0; count < 100; count += 1) await startAndClose(directory, store);
  const isAsBefore = (): boolean => process.getActiveResourcesInfo().length <= before;
  await t.notThrowsAsync(until('the handles of a hundred masters to be gone', isAsBefore));
  t.deepEqual(readdirSync(path.join(directory, 'run')), []);
});

async function startAndClose(directory: string, store: Store): Promise<void> {
  const master = memoryMaster(directory, store);
  await master.start();
  await master.close();
}
